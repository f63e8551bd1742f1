//! The label of a kernel: its name, its functor and its element type.

use super::name::{arguments, identifier, path, without_anonymous, without_signature};

/// Longest name that is read. Demanglers stop earlier, so a longer one is not a name.
const MAX_BYTES: usize = 1 << 16;
/// Deepest template that is read: names come from untrusted files.
const MAX_LEVELS: usize = 24;
/// More numbers than these say nothing.
const MAX_NUMBERS: usize = 8;
/// Templates whose first argument is what they run.
const WRAPPERS: [&str; 7] = [
    "device_kernel",
    "enable_sm90",
    "enable_sm90_or_later",
    "Kernel",
    "Kernel2",
    "_kernel_agent",
    "cuda_kernel",
];
/// The head of kernels that cuDNN generates.
const GENERATED: &str = "cudnn_generated_fort_native_";
/// Words of a functor's name that every functor has.
const FUNCTOR_WORDS: [&str; 8] = ["kernel", "cuda", "functor", "impl", "nocast", "launch", "gpu", "op"];
/// Element types: C++ name, label.
const TYPES: [(&str, &str); 24] = [
    ("float", "f32"),
    ("double", "f64"),
    ("BFloat16", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("bfloat16_t", "bf16"),
    ("Half", "f16"),
    ("__half", "f16"),
    ("half_t", "f16"),
    ("tfloat32_t", "tf32"),
    ("Float8_e4m3fn", "f8e4m3"),
    ("Float8_e5m2", "f8e5m2"),
    ("complex<float>", "c64"),
    ("complex<double>", "c128"),
    ("bool", "bool"),
    ("char", "i8"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("short", "i16"),
    ("unsigned short", "u16"),
    ("int", "i32"),
    ("unsigned int", "u32"),
    ("long", "i64"),
    ("long long", "i64"),
    ("unsigned long", "u64"),
];

/// Bytes of an element of any type, and their label.
const OPAQUE: [(&str, &str); 5] =
    [(")1", "8-bit"), (")2", "16-bit"), (")4", "32-bit"), (")8", "64-bit"), (")16", "128-bit")];

/// Amount of detail in a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelDetail {
    /// Name, functor, element type.
    Least,
    /// The same with the numbers among the template arguments.
    Numbers,
}

/// The label of a kernel. Names without C++ syntax are complete.
pub(super) fn label(name: &str, detail: LabelDetail) -> String {
    if name.starts_with("nvjet_") {
        return format!("{name} gemm");
    }
    // Behind the tile are stages, warps, warp groups and alignments.
    let behind = ["_stage", "_warpgroupsize"].into_iter().find_map(|behind| name.split_once(behind));
    if let Some((complete, _)) = behind.filter(|(head, _)| head.contains("_xmma_")) {
        return complete.to_owned();
    }
    if let Some(generated) = name.strip_prefix(GENERATED) {
        // Behind the knob are its tile and its cluster.
        let (complete, _) = generated.split_once("_knob_").unwrap_or((generated, ""));
        return format!("cudnn_{complete}");
    }
    let short = without_anonymous(name);
    let Some(signed) = without_signature(&short).filter(|_| name.len() <= MAX_BYTES) else {
        return name.to_owned();
    };
    if let Some(complete) = cutlass(signed) {
        return complete.to_owned();
    }
    let Some((base, part)) = last_named(signed).map(unwrapped) else { return name.to_owned() };
    let arguments = arguments(part);
    let functor = functor(&arguments, MAX_LEVELS);
    let brackets = [functor.as_ref().and_then(|functor| functor.name.clone()), element(&arguments, functor)];
    let brackets: Vec<String> = brackets.into_iter().flatten().collect();
    let numbers = match detail {
        LabelDetail::Least => String::new(),
        LabelDetail::Numbers => numbers(signed),
    };
    if brackets.is_empty() {
        return format!("{base}{numbers}");
    }
    format!("{}[{}]{numbers}", without_suffix(base), brackets.join(" "))
}

/// The name of a kernel that CUTLASS's wrapper hides.
fn cutlass(signed: &str) -> Option<&str> {
    let wrapper = *path(signed).last()?;
    let first = *arguments(wrapper).first()?;
    // The namespace of libraries' own copies begins with it, too.
    let is_complete = first.starts_with("cutlass_") && !first.contains("::");
    (identifier(wrapper).starts_with("Kernel") && is_complete).then_some(first)
}

/// `vectorized_elementwise` of `vectorized_elementwise_kernel`. One word keeps it: `reduce_kernel`.
fn without_suffix(base: &str) -> &str {
    base.strip_suffix("_kernel").filter(|rest| rest.contains('_')).unwrap_or(base)
}

/// The last part of a qualified name with a name of its own, skipping lambdas and call operators.
fn last_named(name: &str) -> Option<(&str, &str)> {
    let is_named = |found: &str| !found.is_empty() && found != "operator";
    path(name).into_iter().rev().map(|part| (identifier(part), part)).find(|(found, _)| is_named(found))
}

/// The template that a wrapper runs, as a name and its text.
fn unwrapped<'a>(mut named: (&'a str, &'a str)) -> (&'a str, &'a str) {
    for _ in 0..MAX_LEVELS {
        let first = arguments(named.1).first().copied();
        let Some(inner) = first.filter(|_| WRAPPERS.contains(&named.0)).and_then(last_named) else { break };
        named = inner;
    }
    named
}

/// A function object among template arguments.
struct FunctionObject<'a> {
    /// Its name. None if it only wraps.
    name: Option<String>,
    /// Its text, for the element type.
    text: &'a str,
}

/// The first function object among template arguments.
fn functor<'a>(arguments: &[&'a str], levels: usize) -> Option<FunctionObject<'a>> {
    let at = arguments.iter().position(|argument| is_functor(argument))?;
    let text = *arguments.get(at)?;
    let applied = arguments.get(at + 1).filter(|_| applies_the_next(text));
    let name = match applied {
        Some(next) => last_named(next).map(|(name, _)| pointwise(text).to_owned() + &words(name)),
        None => name_of(text, levels),
    };
    Some(FunctionObject { name, text })
}

/// True for a lambda, and for names that function objects have.
fn is_functor(argument: &str) -> bool {
    if argument.contains("{lambda") {
        return true;
    }
    let Some((name, part)) = last_named(without_return_type(argument)) else { return false };
    let name = name.to_ascii_lowercase();
    name.contains("functor") || name.ends_with("_op") || name.starts_with("func_wrapper") || {
        name.ends_with("op") && part.contains('<')
    }
}

/// True for PyTorch's wrappers, whose next argument is the operation.
fn applies_the_next(text: &str) -> bool {
    last_named(text).is_some_and(|(name, _)| name.contains("Op") && name.ends_with("Functor"))
}

/// `pointwise ` for wrappers that also multiply and add.
fn pointwise(text: &str) -> &'static str {
    if last_named(text).is_some_and(|(name, _)| name.starts_with("Pointwise")) { "pointwise " } else { "" }
}

/// A function object's name: that of the function object inside, if it wraps one.
fn name_of(text: &str, levels: usize) -> Option<String> {
    let levels = levels.checked_sub(1)?;
    let (name, part) = last_named(without_return_type(text))?;
    let inner = functor(&arguments(part), levels).and_then(|inner| inner.name);
    inner.or_else(|| Some(words(name)).filter(|words| !words.is_empty()))
}

/// A template function as an argument has its return type before it.
fn without_return_type(text: &str) -> &str {
    text.strip_prefix("void ").unwrap_or(text)
}

/// A name in lower case, in words, without those that every functor has.
fn words(name: &str) -> String {
    let mut spaced = String::new();
    let mut before = '_';
    for char in name.chars() {
        if char.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            spaced.push('_');
        }
        spaced.push(char.to_ascii_lowercase());
        before = char;
    }
    let spaced = spaced.replace("cudafunctor", "").replace("cudakernel", "");
    let words: Vec<&str> =
        spaced.split('_').filter(|word| !word.is_empty() && !FUNCTOR_WORDS.contains(word)).collect();
    words.join("_")
}

/// The element type: of the function object, else of the template arguments. Floating point before integers.
fn element(arguments: &[&str], functor: Option<FunctionObject<'_>>) -> Option<String> {
    let of_functor = functor.and_then(|functor| element_of(functor.text, MAX_LEVELS));
    of_functor.or_else(|| first_type(arguments)).map(str::to_owned)
}

/// The element type of a function object: its first argument, or the first parameter of its lambda.
fn element_of(text: &str, levels: usize) -> Option<&'static str> {
    let levels = levels.checked_sub(1)?;
    let (_, part) = last_named(without_return_type(text))?;
    let arguments = arguments(part);
    if let Some(found) = first_type(&arguments) {
        return Some(found);
    }
    let mut inner = arguments.iter().filter(|argument| is_functor(argument));
    inner.find_map(|inner| element_of(inner, levels)).or_else(|| lambda_type(text))
}

/// The type of the first parameter of the last lambda.
fn lambda_type(text: &str) -> Option<&'static str> {
    let lambda = path(text).into_iter().rev().find_map(|part| part.strip_prefix("{lambda("))?;
    let parameter = lambda.split([',', ')']).next()?;
    type_label(parameter.trim_end_matches(['&', '*']).trim().trim_end_matches(" const"))
}

/// The first floating-point type among arguments, else the first type.
fn first_type(arguments: &[&str]) -> Option<&'static str> {
    let types: Vec<&'static str> = arguments.iter().filter_map(|argument| type_label(argument)).collect();
    let is_float = |label: &&&str| !label.starts_with(['i', 'u']) && **label != "bool";
    types.iter().find(is_float).or_else(|| types.first()).copied()
}

fn type_label(argument: &str) -> Option<&'static str> {
    let argument = argument.trim_end_matches(" const").trim_start_matches("const ");
    let last = path(argument).last().copied()?;
    if identifier(last) == "OpaqueType" {
        // PyTorch's type of elements that are only copied, by their bytes.
        return OPAQUE
            .iter()
            .find(|(bytes, _)| arguments(last).iter().any(|size| size.ends_with(bytes)))
            .map(|(_, label)| *label);
    }
    TYPES.iter().find(|(name, _)| *name == last).map(|(_, label)| *label)
}

/// The numbers among template arguments, as `<8,3>`. Empty without any.
fn numbers(signed: &str) -> String {
    let pieces =
        signed.split(['<', ',', '>']).map(|piece| piece.rsplit(')').next().unwrap_or_default().trim());
    let is_number = |piece: &&str| !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<&str> = pieces.filter(is_number).collect();
    if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
        String::new()
    } else {
        format!("<{}>", numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(label(name, LabelDetail::Least), expected);
    }

    #[test]
    fn names_of_libraries_stay_complete() {
        check("column_sums", "column_sums");
        check("triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_0");
        check("nvjet_sm90_tst_64x8_64x16_2x4_h_bz_NNT", "nvjet_sm90_tst_64x8_64x16_2x4_h_bz_NNT gemm");
        check(
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
            "cudnn_sdpa_sm90_flash_fprop_wgmma_f16",
        );
        check(
            "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)",
            "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8",
        );
        check(
            "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_Broadcast_RING_LL",
        );
    }

    #[test]
    fn wrappers_give_way_to_what_they_run() {
        check(
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwd<2, cutlass::half_t>, float> > >(flash::Params)",
            "FlashAttnFwdSm90[f32]",
        );
        check("void cutlass::device_kernel<int>(int)", "int");
        check(
            "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
            "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8",
        );
        check(
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32",
        );
        check(
            "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<cutlass__5x_cudnn::MatrixShape<4, 128>, cutlass__5x_cudnn::epilogue::thread::LinearCombination<float, 4, float, float> > >(cutlass__5x_cudnn::reduction::kernel::ReduceSplitK::Params)",
            "ReduceSplitK",
        );
    }

    #[test]
    fn comparisons_in_a_return_type_are_no_brackets() {
        check(
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, float, int)",
            "fused_add_rms_norm[bf16]",
        );
        check("void f<((4)<(8)), float>(int)", "f[f32]");
    }

    #[test]
    fn brackets_hold_functor_and_type() {
        check(
            "void at::native::elementwise_kernel<128, 2, void at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>(int, int)",
            "elementwise_kernel[add f32]",
        );
        check(
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, bool, at::native::(anonymous namespace)::CompareEqFunctor<float> >, std::array<char*, (unsigned long)3> >(int)",
            "vectorized_elementwise[compare_eq f32]",
        );
        check(
            "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 6, false>(int)",
            "softmax_warp_forward[bf16]",
        );
    }

    #[test]
    fn numbers_distinguish() {
        let name = "void foo<8, at::BFloat16, std::array<char*, (unsigned long)3> >(int, bar<7>)";
        assert_eq!(label(name, LabelDetail::Numbers), "foo[bf16]<8,3>");
    }

    #[test]
    fn hostile_names_are_labels_too() {
        check("a<b", "a<b");
        check("operator->", "operator->");
        check("(anonymous namespace)::", "(anonymous namespace)::");
        let deep = "f<".repeat(20_000) + "int" + &">".repeat(20_000);
        assert!(!label(&deep, LabelDetail::Numbers).is_empty());
    }

    proptest! {
        #[test]
        fn every_text_has_a_label(name in "[a-z:<>(){},# 0-9]{0,60}") {
            let found = label(&name, LabelDetail::Least);
            prop_assert!(found.is_empty() == name.is_empty(), "{name} gives {found}");
            // A label has no brackets that could nest, unless the name could not be read.
            prop_assert!(found == name || !found.contains("::"));
        }
    }
}
