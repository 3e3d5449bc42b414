# inputs: (torch.rand(2, 3, 12, 12),)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.Conv2d(8, 6, (3, 1), stride=(1, 2), bias=False, groups=2)
        self.norm = nn.GroupNorm(2, 6)
        self.drop = nn.Dropout(0.25)
        self.act = nn.LeakyReLU(0.1)
        self.avg = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 2, bias=False))

    def forward(self, x):
        x = self.pool(F.relu(self.bn(self.conv(x))))
        x = self.act(self.norm(self.down(x)))
        return self.head(self.drop(self.avg(x)))
