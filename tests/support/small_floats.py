"""The small floats of published checkpoints, in numpy: every value of a code, and the code next to a value."""
import numpy as np


def _e4m3_values():
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    value = np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0 ** -9)
    value[127] = value[255] = np.nan
    return np.where(code < 128, value, -value).astype(np.float32)


E4M3 = _e4m3_values()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def codes(values, x):
    """The code of the nearest of all values, for every element of x."""
    return np.nanargmin(np.abs(values - np.asarray(x)[..., None]), axis=-1).astype(np.uint8)


def bf16_bits(x):
    """Cut off, not rounded: what is left is a BF16 number."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def fp8_block(w):
    """One block of at most 128 x 128 as published: {suffix: (dtype, array)}, and the values it stands for."""
    scale = bf16_bits(np.abs(w).max().reshape(1, 1) / 448)
    code = codes(E4M3, w / from_bf16(scale))
    return {".weight": ("F8_E4M3", code), ".weight_scale_inv": ("BF16", scale)}, E4M3[code] * from_bf16(scale)


def nvfp4(w):
    """Groups of 16 inputs with an E4M3 scale each, and one float32 for all."""
    scalar = np.float32(np.abs(w).max() / (6 * 448))
    groups = w.reshape(w.shape[0], -1, 16)
    scale = codes(E4M3, np.maximum(np.abs(groups).max(2) / 6 / scalar, 2.0 ** -6))
    steps = E4M3[scale][..., None] * scalar
    code = codes(E2M1, groups / steps)
    pairs = code.reshape(w.shape[0], -1, 2)
    return ({".weight": ("U8", pairs[..., 0] | pairs[..., 1] << 4), ".weight_scale": ("F8_E4M3", scale),
             ".weight_scale_2": ("F32", scalar.reshape(())), ".input_scale": ("F32", np.float32(0.01).reshape(()))},
            (E2M1[code] * steps).reshape(w.shape))
