// Prints tensor maps that differ in one field, as the driver encodes them: the evidence behind
// recorder/finish/src/tensor_map.rs. Build: nvcc -arch=sm_90 -o tensor_map tensor_map.cu -lcuda
#include <cuda.h>
#include <cstdio>
#include <cstdint>
#include <cstring>
int main(){ cuInit(0); CUdevice d; cuDeviceGet(&d,0); CUcontext c; cuDevicePrimaryCtxRetain(&c,d); cuCtxSetCurrent(c); CUdeviceptr p; cuMemAlloc(&p,1<<28);
 auto go=[&](const char*name,CUtensorMapDataType t,int es,int rank,uint64_t a0,uint64_t a1,uint64_t a2,uint64_t a3,uint64_t a4,uint64_t s1,uint64_t s2,uint64_t s3,uint64_t s4,uint32_t b0,uint32_t b1,uint32_t b2,uint32_t b3,uint32_t b4,uint32_t e0,uint32_t e1,CUtensorMapInterleave il,CUtensorMapSwizzle sw,CUtensorMapL2promotion l2,CUtensorMapFloatOOBfill oob,uint64_t off){
  CUtensorMap m; memset(&m,0,sizeof m); cuuint64_t gd[5]={a0,a1,a2,a3,a4}; cuuint64_t gs[4]={s1,s2,s3,s4}; cuuint32_t bd[5]={b0,b1,b2,b3,b4}; cuuint32_t el[5]={e0,e1,1,1,1};
  CUresult r=cuTensorMapEncodeTiled(&m,t,rank,(void*)(p+off),gd,gs,bd,el,il,sw,l2,oob); printf("%s rc %d base %llx type %d rank %d dims %lu %lu %lu %lu %lu strides %lu %lu %lu %lu box %u %u %u %u %u el %u %u sw %d\n",name,r,p+off,t,rank,a0,a1,a2,a3,a4,s1,s2,s3,s4,b0,b1,b2,b3,b4,e0,e1,sw); uint32_t*w=(uint32_t*)&m; for(int i=0;i<32;i++) printf("%08x%s",w[i],i%8==7?"\n":" "); };
 #define N CU_TENSOR_MAP_INTERLEAVE_NONE
 #define S0 CU_TENSOR_MAP_SWIZZLE_NONE
 #define L0 CU_TENSOR_MAP_L2_PROMOTION_NONE
 #define O0 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
 auto BF=CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; auto F32=CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
 go("2d",BF,2,2,2048,512,1,1,1,4096,0,0,0,64,128,1,1,1,1,1,N,S0,L0,O0,0);
 go("2d-off",BF,2,2,2048,512,1,1,1,4096,0,0,0,64,128,1,1,1,1,1,N,S0,L0,O0,0x1230);
 go("2d-dim",BF,2,2,2049,513,1,1,1,4112,0,0,0,64,128,1,1,1,1,1,N,S0,L0,O0,0);
 go("2d-sw128",BF,2,2,2048,512,1,1,1,4096,0,0,0,64,128,1,1,1,1,1,N,CU_TENSOR_MAP_SWIZZLE_128B,L0,O0,0);
 go("2d-l2",BF,2,2,2048,512,1,1,1,4096,0,0,0,64,128,1,1,1,1,1,N,S0,CU_TENSOR_MAP_L2_PROMOTION_L2_256B,O0,0);
 go("2d-box",BF,2,2,2048,512,1,1,1,4096,0,0,0,32,7,1,1,1,1,1,N,S0,L0,O0,0);
 go("2d-estride",BF,2,2,2048,512,1,1,1,4096,0,0,0,64,128,1,1,1,2,3,N,S0,L0,O0,0);
 go("3d",F32,4,3,1000,300,20,1,1,4000,1200000,0,0,8,16,4,1,1,1,1,N,S0,L0,O0,0);
 go("4d",F32,4,4,1000,300,20,7,1,4000,1200000,24000000,0,8,16,4,2,1,1,1,N,S0,L0,O0,0);
 go("5d",F32,4,5,100,30,20,7,5,400,12000,240000,1680000,8,16,4,2,5,1,1,N,S0,L0,O0,0);
 go("1d",F32,4,1,1000,1,1,1,1,0,0,0,0,8,1,1,1,1,1,1,N,S0,L0,O0,0);
 for(int t=0;t<=12;t++) go("type",(CUtensorMapDataType)t,0,2,256,64,1,1,1,4096,0,0,0,16,8,1,1,1,1,1,N,S0,L0,O0,0);
 go("big",BF,2,3,1ull<<20,1ull<<12,3,1,1,(1ull<<20)*2,1ull<<36,0,0,64,8,1,1,1,1,1,N,S0,L0,O0,0);
}
