"""Launches that read all that the launch before wrote, each with more requests than a default recording keeps as rows.

    python sampled_blocks.py

Nothing is wrong with its accesses. Prints the sum of the result.
"""

import json

import torch
import torch.nn.functional as F


def main():
    torch.manual_seed(0)
    x = torch.arange(16 * 32 * 128, dtype=torch.float32).view(16, 32, 128).cuda()
    normed = F.layer_norm(x, (128,))
    dropped = F.dropout(normed, 0.1)
    result = dropped.to(torch.bfloat16).transpose(1, 2).contiguous()
    print(json.dumps({"sum": round(result.float().sum().item(), 3)}))


main()
