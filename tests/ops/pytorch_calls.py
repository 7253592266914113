"""How ops whose name or arguments differ from PyTorch's are called there.

Where PyTorch has no such function, or no derivative of it, the op's formula in torch functions takes
its place, so that autograd gives the gradients to compare with.
"""

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def reduced(function):
    """For functions of torch that take one dimension: applies them to several, or to all."""
    def call(x, dim=(), keepdim=False):
        dims = sorted((d % max(x.dim(), 1) for d in dim), reverse=True) or range(x.dim())[::-1]
        if x.dim() == 0:
            return function(x.reshape(1), 0)
        for d in dims:
            x = function(x, d, True)
        return x if keepdim else squeezed(x, dims)
    return call


def squeezed(x, dims):
    for d in sorted(dims, reverse=True):
        x = x.squeeze(d)
    return x


def all_dims(x, dim):
    return tuple(dim) or tuple(range(x.dim()))


def per_channel(values, like):
    return values.reshape([1, -1] + [1] * (like.dim() - 2))


def all_but_channels(x):
    return [d for d in range(x.dim()) if d != 1]


def batch_norm_train(x, weight=None, bias=None, eps=1e-5):
    dims = all_but_channels(x)
    mean, variance = x.mean(dims), x.var(dims, unbiased=False)
    invstd = (variance + eps).rsqrt()
    y = (x - per_channel(mean, x)) * per_channel(invstd, x)
    y = y if weight is None else y * per_channel(weight, x)
    return (y if bias is None else y + per_channel(bias, x)), mean, invstd, variance


def batch_norm(x, mean, variance, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        return F.batch_norm(x, None, None, weight, bias, True, momentum, eps)
    y = (x - per_channel(mean, x)) * per_channel((variance + eps).rsqrt(), x)
    y = y if weight is None else y * per_channel(weight, x)
    return y if bias is None else y + per_channel(bias, x)


def batch_norm_backward(grad, x, weight, mean, invstd):
    dims = all_but_channels(x)
    count = x.numel() / x.shape[1]
    normalized = (x - per_channel(mean, x)) * per_channel(invstd, x)
    grad_bias, grad_weight = grad.sum(dims), (grad * normalized).sum(dims)
    scale = invstd if weight is None else invstd * weight
    grad_x = per_channel(scale, x) * (grad - per_channel(grad_bias, x) / count
                                      - normalized * per_channel(grad_weight, x) / count)
    return grad_x, grad_weight, grad_bias


def add_and_rectify(y, residual, cap=None):
    y = y if residual is None else y + residual
    return F.relu(y) if cap is None else F.hardtanh(y, 0, cap)


def batch_norm_apply(x, mean, invstd, weight=None, bias=None, residual=None, relu=False, cap=None):
    y = (x - per_channel(mean, x)) * per_channel(invstd, x)
    y = y if weight is None else y * per_channel(weight, x)
    y = y if bias is None else y + per_channel(bias, x)
    return add_and_rectify(y, residual, cap) if relu else y


def batch_norm_relu(x, weight=None, bias=None, residual=None, eps=1e-5, cap=None):
    y, mean, invstd, _ = batch_norm_train(x, weight, bias, eps)
    return add_and_rectify(y, residual, cap), mean, invstd


def batch_norm_relu_backward(grad, x, weight, bias, mean, invstd, cap=None):
    y = (x - per_channel(mean, x)) * per_channel(invstd, x)
    y = y if weight is None else y * per_channel(weight, x)
    y = y if bias is None else y + per_channel(bias, x)
    mask = (y > 0) if cap is None else (y > 0) & (y < cap)
    return batch_norm_backward(grad * mask, x, weight, mean, invstd)


def channel_affine(x, scale, shift):
    return x * per_channel(scale, x) + per_channel(shift, x)


def conv2d_fused(x, weight, bias, scale, shift, residual, relu, stride=(1,), padding=(0,),
                 dilation=(1,), groups=1, cap=None):
    y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    y = y if scale is None else channel_affine(y, scale, shift)
    return add_and_rectify(y, residual, cap) if relu else y


def conv2d_backward_input_fused(grad, weight, residual, rectified, size, *windows):
    image = torch.nn.grad.conv2d_input(size, weight, grad, *windows)
    image = image if residual is None else image + residual
    return image if rectified is None else image * (rectified > 0)


def linear_fused(x, weight, bias, activation, cap=None):
    y = F.linear(x, weight, bias)
    if activation == 'relu':
        return add_and_rectify(y, None, cap)
    return F.gelu(y, approximate={'gelu': 'none', 'gelu_tanh': 'tanh'}[activation])


def max_pool2d_with_indices(x, *arguments):
    values, indices = F.max_pool2d_with_indices(x, *arguments)
    return values, indices.int()


def max_pool2d_backward(grad, indices, size, _kernel=(), _stride=(), _padding=(0,), _dilation=(1,),
                        _ceil_mode=False, rectified=None):
    flat = torch.zeros(*grad.shape[:2], size[0] * size[1], dtype=grad.dtype)
    flat = flat.scatter_add(2, indices.long().flatten(2), grad.flatten(2))
    images = flat.reshape(*grad.shape[:2], *size)
    return images if rectified is None else images * (rectified > 0)


def avg_pool2d_backward(grad, size, kernel_size, stride, padding, count_include_pad, _format=None):
    return aten.avg_pool2d_backward(grad, torch.zeros(*grad.shape[:2], *size, dtype=grad.dtype),
                                    kernel_size, stride, padding, False, count_include_pad, None)


def uneven_avg_pool2d_backward(grad, size, _format=None):
    return aten._adaptive_avg_pool2d_backward(
        grad, torch.zeros(*grad.shape[:2], *(size * 2)[:2], dtype=grad.dtype))


def shares(target, classes, weight, reduction, ignore_index, label_smoothing):
    """[N, C]: what a class's -log p counts in the loss."""
    hits = (target.unsqueeze(1) == torch.arange(classes)) & (target != ignore_index).unsqueeze(1)
    weight = torch.ones(classes) if weight is None else weight
    every = (target != ignore_index).unsqueeze(1) * (label_smoothing / classes)
    share = (hits * (1 - label_smoothing) + every) * weight
    return share / (hits * weight).sum() if reduction == 'mean' else share


def loss_of_log_probabilities(log_probs, target, weight, reduction, ignore_index, label_smoothing):
    losses = -(log_probs * shares(target, log_probs.shape[1], weight, reduction, ignore_index,
                                  label_smoothing)).sum(1)
    return losses if reduction == 'none' else losses.sum()


def nll_loss(x, target, weight=None, reduction='mean', ignore_index=-100):
    if weight is None:
        return F.nll_loss(x, target, reduction=reduction, ignore_index=ignore_index)
    return loss_of_log_probabilities(x, target, weight, reduction, ignore_index, 0)


def nll_loss_backward(grad, x, target, weight, reduction, ignore_index):
    # shares() knows rows of classes.
    rows = x.reshape(1, -1) if x.dim() == 1 else x.movedim(1, -1).reshape(-1, x.shape[1])
    share = shares(target.reshape(-1), rows.shape[1], weight, reduction, ignore_index, 0)
    result = -share * grad.reshape(-1, 1)
    if x.dim() == 1:
        return result.reshape(x.shape)
    return result.reshape(*target.shape, x.shape[1]).movedim(-1, 1)


def cross_entropy(x, target, weight=None, reduction='mean', ignore_index=-100,
                  label_smoothing=0.0):
    if weight is None:
        return F.cross_entropy(x, target, reduction=reduction, ignore_index=ignore_index,
                               label_smoothing=label_smoothing)
    return loss_of_log_probabilities(F.log_softmax(x, 1), target, weight, reduction, ignore_index,
                                     label_smoothing)


def cross_entropy_loss(x, target, *arguments):
    return cross_entropy(x, target, *arguments), F.log_softmax(x, 1)


def cross_entropy_loss_backward(grad, log_probs, target, weight, reduction, ignore_index,
                                label_smoothing):
    share = shares(target, log_probs.shape[1], weight, reduction, ignore_index, label_smoothing)
    grad = grad.unsqueeze(1) if reduction == 'none' else grad
    return grad * (log_probs.exp() * share.sum(1, keepdim=True) - share)


def binary_cross_entropy_with_logits(x, target, weight=None, pos_weight=None, reduction='mean'):
    positive = target if pos_weight is None else target * pos_weight
    losses = -positive * F.logsigmoid(x) - (1 - target) * F.logsigmoid(-x)
    losses = losses if weight is None else losses * weight
    return losses if reduction == 'none' else getattr(losses, reduction)()


def silu_backward(grad, x):
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def pair_loss(x, target, loss, reduction, parameter=0.0):
    terms = CALLS[loss](x, target, parameter) if loss == 'huber_error' else CALLS[loss](x, target)
    return getattr(terms, reduction)()


CALLS = {
    'absolute_error': lambda x, target: (x - target).abs(),
    'absolute_error_backward': lambda x, target, grad: torch.sign(x - target) * grad,
    'huber_error': lambda x, target, delta=1.0: torch.where(
        (x - target).abs() < delta, (x - target) ** 2 / 2, delta * ((x - target).abs() - delta / 2)),
    'huber_error_backward': lambda x, target, grad, delta=1.0: (x - target).clamp(
        -delta, delta) * grad,
    'logit_cross_entropy': lambda x, target: (1 - target) * x - F.logsigmoid(x),
    'logit_cross_entropy_backward': lambda x, target, grad: (torch.sigmoid(x) - target) * grad,
    'pair_loss': pair_loss,
    'cube': lambda x: x * x * x,
    'squared_error': lambda x, target: (x - target) ** 2,
    'squared_error_backward': lambda x, target, grad: 2 * (x - target) * grad,
    'add_alpha': lambda x, other, alpha: torch.add(x, other, alpha=alpha),
    'argtopk': lambda x, k, dim=-1, largest=True: torch.sort(
        x, dim=dim, descending=largest, stable=True)[1].narrow(dim, 0, k) if x.dim() else
    torch.zeros((), dtype=torch.int64),
    'as_strided_scatter': lambda x, src, *place: torch.index_put(
        x.flatten(), [places(x, *place)], src.flatten()).reshape(x.shape),
    'allclose': lambda x, *arguments: torch.tensor(torch.allclose(x, *arguments)),
    'clamp_tensor': lambda x, low=None, high=None: torch.clamp(x, low, high),
    'equal': lambda x, other: torch.tensor(torch.equal(x, other)),
    'max_all': torch.max,
    'min_all': torch.min,
    'where_scalar': torch.where,
    'sub_alpha': lambda x, other, alpha: torch.sub(x, other, alpha=alpha),
    'adaptive_avg_pool2d': lambda x, size: F.adaptive_avg_pool2d(x, (size * 2)[:2]),
    'addcdiv': lambda x, a, b, value=1.0: torch.addcdiv(x, a, b, value=value),
    'addcmul': lambda x, a, b, value=1.0: torch.addcmul(x, a, b, value=value),
    'addmm': lambda x, a, b, beta=1.0, alpha=1.0: torch.addmm(x, a, b, beta=beta, alpha=alpha),
    'argmax': lambda x, *dims: torch.argmax(x.byte() if x.dtype == torch.bool else x, *dims),
    'argmin': lambda x, *dims: torch.argmin(x.byte() if x.dtype == torch.bool else x, *dims),
    'avg_pool2d_backward': avg_pool2d_backward,
    'uneven_avg_pool2d': lambda x, size: F.adaptive_avg_pool2d(x, (size * 2)[:2]),
    'uneven_avg_pool2d_backward': uneven_avg_pool2d_backward,
    'batch_norm': batch_norm,
    'batch_norm_apply': batch_norm_apply,
    'batch_norm_backward': batch_norm_backward,
    'batch_norm_relu': batch_norm_relu,
    'batch_norm_relu_backward': batch_norm_relu_backward,
    'batch_norm_stats': lambda x, eps=1e-5: batch_norm_train(x, eps=eps)[1:],
    'batch_norm_train': batch_norm_train,
    'binary_cross_entropy_with_logits': binary_cross_entropy_with_logits,
    'channel_affine': channel_affine,
    'channel_affine_relu': lambda x, scale, shift, residual=None, cap=None: add_and_rectify(
        channel_affine(x, scale, shift), residual, cap),
    'conv2d_backward_input': lambda grad, weight, size, *arguments: torch.nn.grad.conv2d_input(
        size, weight, grad, *arguments),
    'conv2d_backward_weight': lambda grad, x, kernel, *arguments: torch.nn.grad.conv2d_weight(
        x, (grad.shape[1], x.shape[1] // (arguments[3] if len(arguments) > 3 else 1),
            *(kernel * 2)[:2]), grad, *arguments),
    'conv2d_fused': conv2d_fused,
    'conv2d_backward_input_fused': conv2d_backward_input_fused,
    'cross_entropy': cross_entropy,
    'cross_entropy_loss': cross_entropy_loss,
    'cross_entropy_loss_backward': cross_entropy_loss_backward,
    'reshape_view': torch.reshape,
    'floor_divide': lambda x, other: torch.floor_divide(x.detach(), other.detach()),
    'gelu': lambda x, approximate='none': F.gelu(x, approximate=approximate),
    'hardsigmoid_backward': lambda grad, x: grad * ((x > -3) & (x < 3)) / 6,
    'l1_loss': lambda x, target, reduction='mean': F.l1_loss(x, target, reduction=reduction),
    'linear_fused': linear_fused,
    'max_pool2d_backward': max_pool2d_backward,
    'max_pool2d_with_indices': max_pool2d_with_indices,
    'mse_loss': lambda x, target, reduction='mean': F.mse_loss(x, target, reduction=reduction),
    'nll_loss': nll_loss,
    'nll_loss_backward': nll_loss_backward,
    'silu_backward': silu_backward,
    'softmax_backward': lambda grad, output, dim: torch._softmax_backward_data(
        grad, output, dim, output.dtype),
    'log_softmax_backward': lambda grad, output, dim: torch._log_softmax_backward_data(
        grad, output, dim, output.dtype),
    'smooth_l1_loss': lambda x, target, reduction='mean', beta=1.0: F.smooth_l1_loss(
        x, target, reduction=reduction, beta=beta),
    'all': reduced(torch.all),
    'any': reduced(torch.any),
    'atan2': torch.atan2,
    'prod': reduced(torch.prod),
    'clamp_backward': lambda grad, x, low=None, high=None: grad * (
        (torch.ones_like(x, dtype=torch.bool) if low is None else x >= low)
        & (torch.ones_like(x, dtype=torch.bool) if high is None else x <= high)),
    'constant_pad': lambda x, pad, value=0.0: F.pad(x, pad, 'constant', value),
    'dropout': lambda x, p=0.5, training=True: F.dropout(x, p, training),
    'elu': lambda x, alpha=1.0, scale=1.0, input_scale=1.0: aten.elu(x, alpha, scale, input_scale),
    'elu_backward': lambda grad, x, alpha, scale, input_scale: aten.elu_backward(
        grad, alpha, scale, input_scale, False, x),
    'expand': lambda x, size: x.expand(size),
    'gelu_erf': F.gelu,
    'gelu_tanh': lambda x: F.gelu(x, approximate='tanh'),
    'gelu_erf_backward': lambda grad, x: aten.gelu_backward(
        *(t.contiguous() for t in torch.broadcast_tensors(grad, x))),
    'gelu_tanh_backward': lambda grad, x: aten.gelu_backward(grad, x, approximate='tanh'),
    'index_add': lambda x, dim, index, source, alpha=1.0: torch.index_add(
        x, dim, index, source, alpha=alpha),
    'l1_norm': lambda x, dim=(), keepdim=False: torch.linalg.vector_norm(
        x, 1, all_dims(x, dim), keepdim),
    'l2_norm': lambda x, dim=(), keepdim=False: torch.linalg.vector_norm(
        x, 2, all_dims(x, dim), keepdim),
    'leaky_relu_backward': lambda grad, x, slope: aten.leaky_relu_backward(grad, x, slope, False),
    'linear': F.linear,
    'logsumexp': lambda x, dim, keepdim=False: torch.logsumexp(x, all_dims(x, dim), keepdim),
    'norm': lambda x, p=2.0, dim=(), keepdim=False: torch.linalg.vector_norm(
        x, p, all_dims(x, dim), keepdim),
    'one_hot': F.one_hot,
    'relu_backward': lambda grad, output: aten.threshold_backward(grad, output, 0),
    'repeat': lambda x, repeats: x.repeat(repeats),
    'reshape_as': lambda x, other: x.reshape_as(other),
    'scatter': lambda x, dim, index, src: torch.scatter(x, dim, index, src),
    'slice': lambda x, dim=0, start=None, end=None, step=1: aten.slice(x, dim, start, end, step),
    'slice_backward': lambda grad, sizes, dim, start, end, step: aten.slice_scatter(
        torch.zeros(sizes), grad, dim, start, end, step),
    'softplus_backward': lambda grad, x, beta, threshold: aten.softplus_backward(
        grad, x, beta, threshold),
    'squeeze': lambda x, dim=(): squeezed(x, [d % max(x.dim(), 1) for d in dim]) if dim else
    x.squeeze(),
    'std': lambda x, dim=(), correction=1, keepdim=False: torch.std(
        x, all_dims(x, dim), correction=correction, keepdim=keepdim),
    'var_mean': lambda x, dim=(), correction=1, keepdim=False: torch.var_mean(
        x, all_dims(x, dim), correction=correction, keepdim=keepdim),
    'var': lambda x, dim=(), correction=1, keepdim=False: torch.var(
        x, all_dims(x, dim), correction=correction, keepdim=keepdim),
    'sum_to_size': lambda x, size: x.sum_to_size(size),
    't': torch.t,
    'tile': lambda x, dims: x.tile(dims),
    'to_copy': lambda x, dtype=None, memory_format='preserve': x.to(
        dtype or x.dtype, copy=True, memory_format=getattr(torch, {
            'contiguous': 'contiguous_format', 'channels_last': 'channels_last',
            'preserve': 'preserve_format'}[memory_format])),
    'unflatten': lambda x, dim, sizes: x.unflatten(dim, sizes),
    'view': lambda x, size: x.view(size),
    'view_as': lambda x, other: x.view_as(other),
    'write_': lambda destination, source: destination.detach().clone().copy_(source),
}

# PyTorch differentiates what these are compared with; here they are parts of ops that have gradients.
NOT_DIFFERENTIABLE = {
    'batch_norm_apply', 'batch_norm_backward', 'batch_norm_relu_backward', 'batch_norm_stats',
    'conv2d_fused', 'conv2d_backward_input_fused', 'linear_fused', 'write_',
}

NO_COUNTERPART = {
    'adam_step_': 'optimizer steps are compared with torch.optim in tests/optim',
    'sgd_step_': 'optimizer steps are compared with torch.optim in tests/optim',
    'philox_dropout': 'another random stream than PyTorch on the CPU',
    'philox_random': 'another random stream than PyTorch on the CPU',
}


def places(x, size, stride, offset=0):
    """The numbers of the elements that as_strided takes. (PyTorch 1.13 gives the gradient of
    as_strided_scatter elements that it has not written.)"""
    return torch.arange(x.numel()).as_strided(size, stride, offset).flatten()


def find(name):
    if name in CALLS:
        return CALLS[name]
    for module in (torch, F, torch.Tensor, torch.ops.aten):
        if hasattr(module, name):
            return getattr(module, name)
    return None
