"""PyTorch's own memory profiler, whose entry the allocator hook stands in front of."""

import torch

from _stallmap_record._session import SESSION

print(SESSION.library.hook_allocator() > 0)
with torch.profiler.profile(profile_memory=True) as profile:
    result = torch.ones(1024)
print(sum(event.self_cpu_memory_usage for event in profile.key_averages()))
