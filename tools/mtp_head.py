"""The multi-token-prediction head of qwen4_exp, put together from the official classes, which leave it out."""
import copy

import torch
import transformers.models.qwen4_exp.modeling_qwen4_exp as official


class MtpHead(torch.nn.Module):
    """Multi-token prediction: from the trunk's streams at t (before its last mixer) and the token at t+1 to the token at t+2.

    One RMS norm runs over all streams together; the projected embedding is added to every stream; then one attention
    layer with experts of its own and a mixer. Embedding and output matrix are the trunk's."""

    def __init__(self, config):
        super().__init__()
        size, self.streams = config.hidden_size, config.hc_count
        layer = copy.deepcopy(config)
        self.config = layer
        layer.num_hidden_layers, layer.layer_types, layer.ple_layer_ids = 1, ["indexed_attention"], []
        self.fc_embedding = torch.nn.Linear(size, size, bias=False)
        self.fc_hidden = torch.nn.Linear(size, size, bias=False)
        self.pre_fc_norm_embedding = official.Qwen4ExpTextRMSNorm(size, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = official.Qwen4ExpTextRMSNorm(self.streams * size, eps=config.rms_norm_eps)
        self.layers = torch.nn.ModuleList([official.Qwen4ExpTextDecoderLayer(layer, 0)])
        self.hyper_connection_mixer = official.Qwen4ExpTextGatedResidual(layer, use_combine=False)

    def forward(self, streams, embedded, rotary):
        """streams [B,T,hc*D] at t, embedded [B,T,D] of the tokens at t+1 -> the layer's input and output streams [B,T,hc*D],
        hidden [B,T,D]"""
        rows, length, _ = streams.shape
        wide = self.fc_hidden(self.pre_fc_norm_hidden(streams).unflatten(-1, (self.streams, -1)))
        wide = (wide + self.fc_embedding(self.pre_fc_norm_embedding(embedded))[:, :, None]).flatten(-2)
        mask = torch.ones(length, length, dtype=torch.bool).tril().expand(rows, 1, length, length)
        if self.layers[0].self_attn.config._attn_implementation == "eager":
            mask = torch.zeros(mask.shape, dtype=wide.dtype).masked_fill(~mask, torch.finfo(wide.dtype).min)
        position = torch.arange(length).expand(3, rows, length)
        after = self.layers[0](wide, position_embeddings=rotary(wide, position), attention_mask=mask)
        return wide, after, self.hyper_connection_mixer(after)
