"""The published model: its config (values known from its own files) and all 1,658 tensors by name, type and shape."""

ROPE = dict(mrope_interleaved=True, mrope_section=[11, 11, 10], partial_rotary_factor=0.25, rope_theta=10000000, rope_type="default")
TEXT = dict(
    model_type="qwen4_exp_text", dtype="bfloat16", attention_bias=False, eos_token_id=248044, full_attention_interval=4,
    hc_count=4, hc_lowrank=320, head_dim=256, heads_per_ngram=8, hidden_act="silu", hidden_size=2560, indexer_budget=2048,
    indexer_compress_ratio=4, indexer_head_dim=128, indexer_kv_heads=1, indexer_n_heads=4,
    layer_types=["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(48)], linear_conv_kernel_dim=4,
    linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=48, linear_value_head_dim=128,
    make_ngram_vocab_size_divisible_by=128, max_position_embeddings=262144, moe_intermediate_size=640, mtp_num_hidden_layers=1,
    ngram_size=3, ngram_vocab_size_base=20000000, num_attention_heads=24, num_experts=512, num_experts_per_tok=10,
    num_hidden_layers=48, num_key_value_heads=2, output_gate_type="sigmoid", partial_rotary_factor=0.25, ple_conv_kernel_size=4,
    ple_embed_dim=2560, ple_layer_ids=[2], rms_norm_eps=1e-6, rope_parameters=ROPE, shared_expert_intermediate_size=640,
    split_ngram_parts=128, tie_word_embeddings=False, vocab_size=248320)
CONFIG = dict(
    architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", tie_word_embeddings=False, text_config=TEXT,
    image_token_id=248056, video_token_id=248057, vision_start_token_id=248053, vision_end_token_id=248054,
    vision_config=dict(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, patch_size=16, spatial_merge_size=2,
                       temporal_patch_size=2, in_channels=3, num_position_embeddings=2304, out_hidden_size=2560,
                       hidden_act="gelu_pytorch_tanh", deepstack_visual_indexes=[], model_type="qwen4_exp"))
MULTIPLIERS = [23703573157769, 20109073645365, 8052911324071]
PRIMES = [20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
          20000153, 20000159, 20000161, 20000171]


def mixer(stem, inject=True):
    yield f"{stem}.hc_norm.weight", (10240,)
    yield f"{stem}.input_mix_weight_down.weight", (320, 10240)
    yield f"{stem}.input_mix_weight_up.weight", (10240, 320)
    if inject:
        yield f"{stem}.block_inject_weight.weight", (4, 10240)


def decoder_layer(stem, attention):
    for side in ("attn", "mlp"):
        yield from mixer(f"{stem}.{side}_hyper_connection")
    if attention:
        a = f"{stem}.self_attn"
        shapes = dict(q_proj=(12288, 2560), k_proj=(512, 2560), v_proj=(512, 2560), o_proj=(2560, 6144), q_norm=(256,), k_norm=(256,))
        shapes |= {"indexer.index_qk_proj": (640, 2560), "indexer.q_layernorm": (128,), "indexer.k_layernorm": (128,)}
        yield from ((f"{a}.{name}.weight", shape) for name, shape in shapes.items())
    else:
        a = f"{stem}.linear_attn"
        shapes = dict(in_proj_qkv=(10240, 2560), in_proj_z=(6144, 2560), in_proj_a=(48, 2560), in_proj_b=(48, 2560),
                      conv1d=(10240, 1, 4), norm=(128,), out_proj=(2560, 6144))
        yield from ((f"{a}.{name}.weight", shape) for name, shape in shapes.items())
        yield f"{a}.A_log", (48,)
        yield f"{a}.dt_bias", (48,)
    m = f"{stem}.mlp"
    yield f"{m}.gate.weight", (512, 2560)
    yield f"{m}.experts.gate_up_proj", (512, 1280, 2560)
    yield f"{m}.experts.down_proj", (512, 2560, 640)
    yield from ((f"{m}.shared_expert.{name}_proj.weight", (2560, 640) if name == "down" else (640, 2560)) for name in ("gate", "up", "down"))
    yield f"{m}.shared_expert_gate.weight", (1, 2560)


def vision():
    v = "model.visual"
    yield f"{v}.patch_embed.proj.weight", (1152, 3, 2, 16, 16)
    yield f"{v}.patch_embed.proj.bias", (1152,)
    yield f"{v}.pos_embed.weight", (2304, 1152)
    for i in range(27):
        b = f"{v}.blocks.{i}"
        for name, (rows, cols) in {"attn.qkv": (3456, 1152), "attn.proj": (1152, 1152), "mlp.linear_fc1": (4304, 1152),
                                   "mlp.linear_fc2": (1152, 4304)}.items():
            yield f"{b}.{name}.weight", (rows, cols)
            yield f"{b}.{name}.bias", (rows,)
        for name in ("norm1", "norm2"):
            yield f"{b}.{name}.weight", (1152,)
            yield f"{b}.{name}.bias", (1152,)
    for name, shape in {"norm": (1152,), "linear_fc1": (4608, 4608), "linear_fc2": (2560, 4608)}.items():
        yield f"{v}.merger.{name}.weight", shape
        yield f"{v}.merger.{name}.bias", shape[:1]


def tensors():
    """(name, type, shape) of every tensor of the BF16 checkpoint."""
    t = "model.language_model"
    named = [(f"{t}.embed_tokens.weight", (248320, 2560)), ("lm_head.weight", (248320, 2560))]
    for i in range(48):
        named += decoder_layer(f"{t}.layers.{i}", i % 4 == 3)
    named += mixer(f"{t}.hyper_connection_mixer", inject=False)
    p = f"{t}.layers.1.ple"
    named += [(f"{p}.key_proj.weight", (10240, 2560)), (f"{p}.value_proj.weight", (2560, 2560)), (f"{p}.conv1d.weight", (10240, 1, 4))]
    named += [(f"{p}.norm_{name}.weight", (10240,)) for name in ("key", "query", "conv")]
    named += [(f"{p}.ple_embedding.ngram_embedding.shard_{i}.weight", (2500012, 160)) for i in range(128)]
    named += [("mtp.fc_embedding.weight", (2560, 2560)), ("mtp.fc_hidden.weight", (2560, 2560)),
              ("mtp.pre_fc_norm_embedding.weight", (2560,)), ("mtp.pre_fc_norm_hidden.weight", (10240,))]
    named += mixer("mtp.hyper_connection_mixer", inject=False)
    named += decoder_layer("mtp.layers.0", True)
    named += vision()
    integers = dict(layer_multipliers=3, ngram_heads_vocab_sizes=16, ngram_heads_offsets=16)
    return [(name, "BF16", shape) for name, shape in named] + \
           [(f"{p}.ple_embedding.{name}", "I64", (n,)) for name, n in integers.items()]


def integer_values(name):
    offsets = [sum(PRIMES[:i]) for i in range(len(PRIMES))]
    return dict(layer_multipliers=MULTIPLIERS, ngram_heads_vocab_sizes=PRIMES, ngram_heads_offsets=offsets)[name.rpartition(".")[2]]
