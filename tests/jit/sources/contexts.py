# inputs: (torch.rand(4, 3),)
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        with torch.autocast("cpu"):
            half = self.fc(x)
            with torch.amp.autocast("cpu", enabled=False):
                full = self.fc(x)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16), torch.profiler.record_function("a product"):
            product = torch.mm(x, x.t())
        with torch.cuda.amp.autocast():
            other = self.fc(x)
        with torch.autograd.profiler.record_function("a sum", "of two") as record:
            total = full + other
        with torch.no_grad():
            total = total * 2
        return half.float(), full, product.float(), other, total
