"""The Wan 2.1 VAE over a whole clip at once, differentiable and fast, on the weights of diffusers' AutoencoderKLWan.

The class feeds one latent frame a call through caches. The same numbers come from whole-clip rules: a causal convolution
sees two zero frames in front; temporal upsampling leaves frame 0 alone and starts its own zero history at frame 1;
temporal downsampling keeps frame 0 and slides over all frames. `check` compares the two.
Tensors are channels-last, [B, T, H, W, C].
"""
import functools

import torch
import torch.nn.functional as F

STACKED, NATIVE = "stacked", "native"


class WholeVae:
    """Wraps an AutoencoderKLWan; holds no weights. conv: how 3x3x3 convolutions run (see _conv)."""

    def __init__(self, vae, conv=NATIVE, compile_norms=False):
        self.vae, self.conv = vae, conv
        self.compile_norms = compile_norms

    # -- public -----------------------------------------------------------------------------------------------------
    def encode(self, video):
        """[B, 3, T, H, W] in [-1, 1] -> mean, log-variance, each [B, 16, t, h, w]."""
        moments = self._pointwise(self.vae.quant_conv, self._encoder(video.permute(0, 2, 3, 4, 1).contiguous()))
        mean, logvar = moments.float().permute(0, 4, 1, 2, 3).chunk(2, dim=1)
        return mean, logvar.clamp(-30, 20)

    def decode(self, latent):
        """[B, 16, t, h, w] -> [B, 3, T, H, W], not clamped."""
        x = self._pointwise(self.vae.post_quant_conv, latent.permute(0, 2, 3, 4, 1).contiguous())
        return self._decoder(x).float().permute(0, 4, 1, 2, 3)

    # -- networks ---------------------------------------------------------------------------------------------------
    def _encoder(self, x):
        net = self.vae.encoder
        x = self._conv(net.conv_in, x)
        for layer in net.down_blocks:
            x = self._resample(layer, x) if hasattr(layer, "resample") else self._resnet(layer, x)
        x = self._mid(net.mid_block, x)
        return self._conv(net.conv_out, self.norm_silu(x, net.norm_out.gamma.flatten()))

    def _decoder(self, x):
        net = self.vae.decoder
        x = self._mid(net.mid_block, self._conv(net.conv_in, x))
        for block in net.up_blocks:
            for resnet in block.resnets:
                x = self._resnet(resnet, x)
            for layer in block.upsamplers or []:
                x = self._resample(layer, x)
        return self._conv(net.conv_out, self.norm_silu(x, net.norm_out.gamma.flatten()))

    def _mid(self, block, x):
        x = self._resnet(block.resnets[0], x)
        for attention, resnet in zip(block.attentions, block.resnets[1:]):
            x = self._resnet(resnet, self._attend(attention, x))
        return x

    def _resnet(self, block, x):
        skip = x if isinstance(block.conv_shortcut, torch.nn.Identity) else self._pointwise(block.conv_shortcut, x)
        h = self._conv(block.conv1, self.norm_silu(x, block.norm1.gamma.flatten()))
        return skip + self._conv(block.conv2, self.norm_silu(h, block.norm2.gamma.flatten()))

    def _attend(self, block, x):
        b, t, h, w, c = x.shape
        n = _norm(x, block.norm.gamma.flatten()).reshape(b * t, h * w, c)
        q, k, v = F.linear(n, block.to_qkv.weight.flatten(1), block.to_qkv.bias).unsqueeze(1).chunk(3, dim=-1)
        a = F.scaled_dot_product_attention(q, k, v).squeeze(1)
        return x + F.linear(a, block.proj.weight.flatten(1), block.proj.bias).view(b, t, h, w, c)

    def norm_silu(self, x, gamma):
        if not self.compile_norms:
            return _norm_silu(x, gamma)
        return _compiled_norm_silu(x.shape[-1])(x.contiguous(), gamma).view(x.shape)

    # -- layers -----------------------------------------------------------------------------------------------------
    def _pointwise(self, layer, x):
        return F.linear(x, layer.weight.flatten(1), layer.bias)

    def _conv(self, layer, x):
        """Causal 3x3x3. native: one 3D convolution; stacked: a 2D one over three frames laid side by side in channels."""
        b, t, h, w, c = x.shape
        x = F.pad(x, (0, 0, 0, 0, 0, 0, 2, 0))
        if self.conv == NATIVE:
            return F.conv3d(x.permute(0, 4, 1, 2, 3), layer.weight, layer.bias, padding=(0, 1, 1)).permute(0, 2, 3, 4, 1)
        x = torch.cat([x[:, k:k + t] for k in range(3)], dim=-1).view(b * t, h, w, 3 * c)
        weight = layer.weight.permute(0, 2, 1, 3, 4).flatten(1, 2)  # [O, 3C, 3, 3]
        return self._conv2d(x, weight, layer.bias, padding=1).view(b, t, h, w, -1)

    def _conv2d(self, x, weight, bias, **kw):
        return F.conv2d(x.permute(0, 3, 1, 2), weight, bias, **kw).permute(0, 2, 3, 1)

    def _time_conv(self, layer, x, stride=1):
        """3x1x1 over time without padding, as a matrix product over three frames."""
        frames = x.shape[1] - 2
        x = torch.cat([x[:, k:k + frames:stride] for k in range(3)], dim=-1)
        return F.linear(x, layer.weight.flatten(2).permute(0, 2, 1).flatten(1), layer.bias)

    def _resample(self, layer, x):
        if layer.mode == "upsample3d":
            x = self._double_time(layer.time_conv, x)
        b, t, h, w, c = x.shape
        flat = x.reshape(b * t, h, w, c)
        conv = layer.resample[1]
        if layer.mode.startswith("upsample"):
            flat = flat[:, :, None, :, None].expand(-1, -1, 2, -1, 2, -1).reshape(b * t, 2 * h, 2 * w, c)
            x = self._conv2d(flat, conv.weight, conv.bias, padding=1)
        else:
            x = self._conv2d(F.pad(flat, (0, 0, 0, 1, 0, 1)), conv.weight, conv.bias, stride=2)
        x = x.reshape(b, t, *x.shape[1:])
        if layer.mode == "downsample3d":
            x = torch.cat([x[:, :1], self._time_conv(layer.time_conv, x, 2)], dim=1) if t > 1 else x
        return x

    def _double_time(self, layer, x):
        b, t, h, w, c = x.shape
        if t == 1:
            return x
        y = self._time_conv(layer, F.pad(x[:, 1:], (0, 0, 0, 0, 0, 0, 2, 0)))
        y = y.view(b, t - 1, h, w, 2, c).permute(0, 1, 4, 2, 3, 5).reshape(b, 2 * (t - 1), h, w, c)
        return torch.cat([x[:, :1].to(y.dtype), y], dim=1)


def _norm(x, gamma):
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True).clamp_min(1e-26)) * gamma).to(x.dtype)


def _norm_silu(x, gamma):
    return F.silu(_norm(x, gamma).float()).to(x.dtype)


@functools.cache
def _compiled_norm_silu(width):
    """One kernel a width, for any number of rows."""
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.suppress_errors = True  # no compiler: slower, not broken
    return torch.compile(lambda x, gamma: _norm_silu(x.view(-1, width), gamma), dynamic=True)


def check(vae, frames=9, side=32, tolerance=2e-5):
    """Exits unless whole-clip and chunked encode and decode agree in fp32, both ways of convolving."""
    video = torch.rand(1, 3, frames, side, side, generator=torch.Generator().manual_seed(0)).to(vae.device) * 2 - 1
    with torch.no_grad():
        moments = vae._encode(video)
        latent = moments[:, : vae.config.z_dim]
        picture = vae.decode(latent).sample
        for conv in (NATIVE, STACKED):
            whole = WholeVae(vae, conv)
            worst = max(_relative(whole.encode(video)[0], latent), _relative(whole.decode(latent).clamp(-1, 1), picture))
            if not worst <= tolerance:
                raise SystemExit(f"whole-clip VAE ({conv}) differs from the class by {worst:.2e} of the maximum")
            print(f"vae whole-clip check conv={conv} max_relative_difference={worst:.2e}", flush=True)


def _relative(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()
