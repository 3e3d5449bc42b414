# inputs: (torch.linspace(-1, 1, 2 * 4 * 8 * 8).reshape(2, 4, 8, 8), torch.linspace(0, 2, 6 * 8).reshape(6, 8), torch.tensor([0, 3, 5, 11, 19, 7]))
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(8)) for _ in range(3)])
        self.scales.append(torch.ones(8))
        self.scales.extend([nn.Parameter(torch.full([8], 0.5), requires_grad=False)])
        self.scales[1] = nn.Parameter(torch.randn(8))
        self.none = nn.ParameterList()
        self.named = nn.ParameterDict({"left": nn.Parameter(torch.randn(8)), "right": torch.randn(8)})
        self.named["more"] = nn.Parameter(torch.rand(1))
        self.named.update({"last": torch.zeros(8)})
        for key in self.named.keys():
            nn.init.uniform_(self.named[key], 0.1, 0.9)
        self.count = len(self.scales)
        self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
        samples = torch.rand(2, 4, 2)
        self.pool = nn.FractionalMaxPool2d(2, output_size=3, _random_samples=samples)
        self.ratio = nn.FractionalMaxPool2d((2, 3), output_ratio=0.5, return_indices=True, _random_samples=samples)
        self.volume = nn.FractionalMaxPool3d(2, output_size=(2, 3, 3), _random_samples=torch.rand(2, 1, 3))
        self.drawn = nn.FractionalMaxPool2d(2, output_ratio=(0.6, 0.5))
        self.local = nn.CrossMapLRN2d(3, alpha=0.5)
        self.wide = nn.CrossMapLRN2d(8, alpha=0.5, beta=0.5, k=2)
        self.weighted = nn.CrossEntropyLoss(torch.linspace(0.5, 1.5, 8), label_smoothing=0.1)
        self.binary = nn.BCEWithLogitsLoss(pos_weight=torch.linspace(1, 2, 8), reduction="sum")
        self.old = nn.MSELoss(size_average=False)
        self.up = nn.ConvTranspose3d(1, 2, (2, 1, 3), stride=2, groups=1)

    def forward(self, x, rows, target):
        for scale in self.scales:
            rows = rows * scale + 1
        for i, scale in enumerate(self.scales):
            rows = rows + i * scale
        for nothing in self.none:
            rows = rows + nothing
        for a, b in zip(self.scales, self.scales):
            rows = rows + a * b
        rows = rows + self.scales[0] * self.scales[-1] + torch.stack([p for p in self.scales]).sum(0) + torch.stack(list(self.scales)).mean(0)
        rows = rows * self.named["left"] + self.named["right"] * self.named.more + self.count
        rows = torch.tanh(rows)
        result = self.adaptive(rows, target)
        one = self.adaptive(rows[1], target[1])
        best, where = self.ratio(x)
        drawn = self.drawn(x)
        loss = self.weighted(rows, target % 8) + self.binary(rows, rows.sigmoid()) + self.old(rows, rows * 2)
        return (result.output, result.loss, one.output, self.pool(x), best, where.float(), self.volume(x.unsqueeze(1)[:, :, :, :, 0:8]),
                torch.tensor(drawn.shape).float(), self.local(x), self.wide(x), loss, self.up(x.unsqueeze(1)))
