# inputs: (torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6), torch.linspace(1, 0, 2 * 4 * 8).reshape(2, 4, 8), torch.linspace(-2, 1, 1 * 2 * 4 * 4 * 4).reshape(1, 2, 4, 4, 4))
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.images = nn.ModuleList([
            nn.InstanceNorm2d(4), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.AdaptiveMaxPool2d(3), nn.LPPool2d(2, 2),
            nn.ZeroPad2d(1), nn.CircularPad2d((1, 2, 0, 1)), nn.ConstantPad2d(1, 2), nn.ReplicationPad2d((1, 0, 0, 1)), nn.GLU(1), nn.Hardshrink(),
            nn.Softshrink(0.2), nn.Softmin(1), nn.Softmax2d(), nn.Threshold(0.1, 2), nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(2),
            nn.UpsamplingNearest2d(scale_factor=2), nn.UpsamplingBilinear2d(size=(4, 5)), nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"),
            nn.Upsample(size=3, mode="area"), nn.Unfold(2), nn.LocalResponseNorm(3), nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"),
            nn.Conv2d(4, 2, 3, padding=(2, 1), padding_mode="circular", stride=2), nn.Conv2d(4, 2, 3, padding="same"), nn.MaxPool2d(3, 2, ceil_mode=True),
        ])
        self.rows = nn.ModuleList([
            nn.InstanceNorm1d(4), nn.AdaptiveMaxPool1d(3), nn.LPPool1d(2, 2), nn.ZeroPad1d(1), nn.CircularPad1d(2), nn.ConstantPad1d((1, 0), 3.5),
            nn.ReplicationPad1d(1), nn.ReflectionPad1d(2), nn.Conv1d(4, 2, 3, padding=1, padding_mode="replicate"), nn.AvgPool1d(2), nn.RReLU(),
        ])
        self.volumes = nn.ModuleList([
            nn.InstanceNorm3d(2), nn.AdaptiveAvgPool3d(2), nn.AdaptiveMaxPool3d((1, 2, 3)), nn.AvgPool3d(2), nn.LPPool3d(2, 2), nn.ZeroPad3d(1),
            nn.ConstantPad3d(1, 0.5), nn.ReflectionPad3d(1), nn.ReplicationPad3d(1), nn.CircularPad3d(1), nn.ConvTranspose3d(2, 3, 2), nn.MaxPool3d(2),
        ])
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)
        self.fold = nn.Fold((4, 4), 2, stride=2)
        self.bilinear = nn.Bilinear(8, 8, 3)
        self.bag = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1)
        self.cosine = nn.CosineSimilarity(dim=2)
        self.distance = nn.PairwiseDistance(keepdim=True)
        self.huber = nn.HuberLoss(delta=0.5)
        self.kl = nn.KLDivLoss(reduction="batchmean")
        self.ranking = nn.MarginRankingLoss(margin=0.1)
        self.hinge = nn.HingeEmbeddingLoss()
        self.embedding = nn.CosineEmbeddingLoss()
        self.soft = nn.SoftMarginLoss(reduction="sum")
        self.multi = nn.MultiMarginLoss()
        self.labels = nn.MultiLabelSoftMarginLoss()
        self.poisson = nn.PoissonNLLLoss()
        self.gaussian = nn.GaussianNLLLoss()
        self.triplet = nn.TripletMarginLoss(swap=True)
        self.ctc = nn.CTCLoss()

    def forward(self, x, y, z):
        # GLU and the like are tuples of many shapes: sums weighed by position keep the comparison short.
        parts = [y.sum()]
        for image in self.images:
            part = image(x).flatten()
            parts.append((part * torch.linspace(0.5, 1.5, part.size(0))).sum())
        for row in self.rows:
            if not self.training:
                part = row(y).flatten()
                parts.append((part * torch.linspace(0.5, 1.5, part.size(0))).sum())
        for volume in self.volumes:
            part = volume(z).flatten()
            parts.append((part * torch.linspace(0.5, 1.5, part.size(0))).sum())
        pooled, where = self.pool(x)
        parts.append(self.unpool(pooled, where)[0, 0, :, 1].sum())
        parts.append(self.fold(torch.ones(1, 8, 4)).sum())
        parts.append(self.bilinear(y, y + 1).sum())
        parts.append(self.bag(torch.tensor([[1, 2], [4, 4]])).sum())
        parts.append(self.cosine(y, y * y).sum())
        parts.append(self.distance(y, y * y).sum())
        a, b = y[0], y[1] * 3
        sign = torch.tensor([1, -1, 1, 1])
        parts.append(self.huber(a, b))
        parts.append(self.kl(a.log_softmax(1), b.softmax(1)))
        parts.append(self.ranking(a, b, torch.ones(4, 8)))
        parts.append(self.hinge(a[:, :4], sign))
        parts.append(self.embedding(a, b, sign))
        parts.append(self.soft(a[:, :4], sign))
        parts.append(self.multi(a, torch.tensor([1, 0, 7, 3])))
        parts.append(self.labels(a, (b > 0.5).float()))
        parts.append(self.poisson(a, b))
        parts.append(self.gaussian(a, b, torch.ones(4, 8)))
        parts.append(self.triplet(a, b, a * b))
        parts.append(self.ctc(torch.zeros(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 6]), torch.tensor([2, 2])))
        return torch.stack(parts)
