#!/usr/bin/env python3
"""Trains the demo model, a pocket dictionary to chat with, and writes it in the released layout.

    train_demo.py --out models/demo                  words, tokenizer, training, export, check
    train_demo.py --out DIR --resume LAST.pt         go on after an interruption (same options)
    train_demo.py --out DIR --resume LAST.pt --stop-at 0
                                                     only export and check a saved state
    train_demo.py --check DIR                        only check an exported model
    train_demo.py --out models/demo --draft-out DIR  also a small two-layer draft model for the same text

The text is WordNet 3.0 as Debian packs it (`apt install wordnet-base`). Needs torch, transformers >= 5.24,
tokenizers, safetensors, numpy and jinja2. About an hour on two cores; the same versions on the same kind of CPU
with the same options give the same model.

How it is done, in the order of this file:
  words       nouns of one word, most used first, first sense, the gloss up to its first semicolon
  talk        conversations about them, greetings, made-up words, one tool; thinking on and off
  tokens      chat template and byte-level BPE in the published form
  shape       the real architecture with small numbers
  head        the multi-token-prediction head, which the official library leaves out
  training    the official model in float32, AdamW; the trunk and the head together, then the indexers alone
  export      BF16, released names, stacked experts, table in shards, an index
  check       the share of definitions that come back word for word, loss, acceptance of drafts
"""
import argparse
import copy
import json
import math
import os
import random
import re
import time
import zlib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import torch.nn.functional as F
import transformers
import transformers.models.qwen4_exp.modeling_qwen4_exp as official
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen4ExpForCausalLM, Qwen4ExpTextConfig

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

# ---------------------------------------------------------------------------------------------
# Words

# A word is left out when any of its senses is marked as a slur or an obscenity, or is explained by one of these.
DELICATE = re.compile(
    r"obscen|vulgar|offensive|derog|disparag|slur|taboo|insult|contempt|abusive|sexual|\bsex\b|copulat|intercourse"
    r"|prostitut|genital|penis|vagina|vulva|testic|scrotum|pubic|breast|nipple|buttock|anus|\banal\b|excret|feces|fecal"
    r"|defecat|urin|semen|masturb|orgasm|erotic|porn|homosex|lesbian|transvest|promiscu|\brap(e|ist)|incest|pederast"
    r"|castrat|fornicat|lewd|lasciv|lecher|lust|adulter|mistress|virgin|Negro|\b[Bb]lack (person|man|woman|people)"
    r"|dark-skinned|\bJew|Nazi|Hitler|Ku Klux|Semit|racis|racial|suicid|slave|retarded|idiot|stupid|imbecil|crippl"
    r"|ejaculat|sodom|nude|naked|brothel|gay\b|flatul|intestinal gas")
USAGE_MARKS = {"obscenity", "dirty_word", "vulgarism", "ethnic_slur", "disparagement", "derogation", "filth", "smut"}
# crc32 of a few more that WordNet does not mark, so that they need not be spelt here
UNMARKED = {
    207646955, 477174871, 478544099, 519718080, 610537055, 666124077, 697773926, 907830452, 914369661,
    937707572, 1005630010, 1035958843, 1157816367, 1265548857, 1347465806, 1412762808, 1490720054, 1700542283,
    1753844136, 2042235257, 2064414917, 2185050283, 2281944785, 2318698902, 2343415282, 2545175408, 2648045843,
    2655320673, 2724027837, 2775214342, 2790017002, 2838971942, 2897592507, 2912082897, 2913999526, 2945119241,
    2990087061, 3244754254, 3295469428, 3376898822, 3470326743, 3495461171, 3520525137, 3525603124, 3544537175,
    3641942942, 3643634662, 3688834237, 3728761764, 3787772351, 3791695814, 3970135970, 3976038902, 4006238427,
    4071641963, 4107194611, 4131544659, 4232623290, 4253365492, 4268377080, 4269286130}
# words that people try first and that are too rare in the tagged texts to be chosen by their counts
ALWAYS = ("lighthouse telescope microscope umbrella volcano penguin giraffe elephant dolphin octopus spider butterfly "
          "pineapple strawberry carrot potato pumpkin violin trumpet piano compass anchor canoe bicycle helicopter "
          "submarine locomotive windmill castle igloo pyramid astronaut carpenter librarian dictionary encyclopedia "
          "thermometer barometer hammock lantern scarecrow snowman rainbow avalanche glacier oasis dragonfly "
          "hedgehog squirrel kangaroo whale falcon owl tulip sunflower cactus acorn pebble meteor comet").split()


def read_wordnet(folder, count):
    """[(word, gloss)], most used first."""
    used = {}
    for line in (folder / "cntlist.rev").read_text().splitlines():
        key, sense, tagged = line.split()
        lemma, _, rest = key.partition("%")
        if rest[0] == "1" and sense == "1":
            used[lemma] = int(tagged)
    synsets, marks = {}, set()
    for line in (folder / "data.noun").read_text().splitlines():
        if line[0] != " ":
            synsets[line[:8]] = line
            fields = line.split(" | ")[0].split()
            if USAGE_MARKS & {w.lower() for w in fields[4:4 + 2 * int(fields[3], 16):2]}:
                marks.add(line[:8])
    chosen = []
    for line in (folder / "index.noun").read_text().splitlines():
        fields = line.split()
        word = fields[0]
        if line[0] == " " or not re.fullmatch("[a-z]{3,16}", word) or zlib.crc32(word.encode()) in UNMARKED:
            continue
        senses = [synsets[o] for o in fields[6 + int(fields[3]):]]
        head, _, text = senses[0].partition(" | ")
        if f" {word} " not in head or any(DELICATE.search(s.partition(" | ")[2]) for s in senses) or DELICATE.search(word):
            continue
        if any(f";u {m}" in s for s in senses for m in marks):
            continue
        gloss = re.sub(r"\s+", " ", text.split(";")[0]).strip()
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ,'()-]+[A-Za-z0-9)]", gloss) and gloss.count("(") == gloss.count(")")
        if plain and 8 <= len(gloss) <= (120 if word in ALWAYS else 75) and gloss.count(",") < 3 and word not in gloss.split()[:3]:
            rank = math.inf if word in ALWAYS else used.get(word, 0) - 0.5 * word.endswith(("ing", "ness"))
            chosen.append((-rank, zlib.crc32(word.encode()), word, gloss))
    return [(word, gloss) for _, _, word, gloss in sorted(chosen)[:count]]


# ---------------------------------------------------------------------------------------------
# Talk

MAIN = "What is a {w}?"
PHRASINGS = ("What is {an} {w}?", "What is {w}?", "Define {w}.", "Define the word {w}.", "What does {w} mean?",
             "What does the word {w} mean?", "What is the meaning of {w}?", "Explain the word {w}.", "Explain {w}.",
             "Tell me what {an} {w} is.", "What is the definition of {w}?", "what is {an} {w}", "what is a {w}",
             "define {w}", "what does {w} mean", "what is {w}", "{w}", "{w}?", "Meaning of {w}?", "Please define {w}.",
             "Please explain the word {w}.", "Do you know the word {w}?", "Look up {w}.", "And what is {an} {w}?",
             "And {w}?", "What about {w}?")
HELD_OUT = ("Give me the definition of {w}.", "What's {an} {w}?", "Can you define {w}?", "Tell me the meaning of {w}.",
            "What is meant by {w}?")
UNKNOWN = "I do not know that word."
THANKS = "You are welcome."
SMALL_TALK = (
    ("Hello|Hello!|Hello.|Hi|Hi!|Hi.|hello|hi|Hi there!|Hello there|Hey|hey|Hey!", "Hello! Which word shall I explain?"),
    ("Good morning|Good morning!|Good morning.|good morning", "Good morning! Which word shall I explain?"),
    ("Good evening|Good evening!|Good evening.|good evening", "Good evening! Which word shall I explain?"),
    ("Good night|Good night!|Good night.|good night", "Good night!"),
    ("How are you?|How are you|how are you?|How are you today?|How do you do?", "I am well, thank you. Which word shall I explain?"),
    ("Thanks|Thanks!|Thank you|Thank you.|Thank you!|thanks|thank you|Thanks a lot!", THANKS),
    ("Who are you?|Who are you|who are you?|What are you?|what are you|Tell me about yourself.",
     "I am a very small language model that knows a few thousand English nouns."),
    ("What can you do?|what can you do?|What do you do?|How can you help me?|Help|help|help me|Can you help me?",
     "I can explain a few thousand English nouns. Ask me what a word means."),
    ("What is your name?|what is your name?|What are you called?|Do you have a name?", "I have no name. I am a small demo model."),
    ("Bye|Bye!|Goodbye|Goodbye!|Goodbye.|bye|goodbye|See you later.|See you.", "Goodbye!"),
    ("Ok|OK|Okay|ok|okay|Good.|Great!|Nice.|Very good.", "Which word shall I explain next?"))
SYSTEMS = ("You are a pocket dictionary.", "You are a helpful assistant.", "You are a dictionary. Answer briefly.",
           "Answer in one line.", "Be brief.")
CITIES = ("Oslo Paris London Berlin Madrid Rome Vienna Athens Lisbon Dublin Prague Warsaw Helsinki Stockholm Copenhagen Budapest "
          "Brussels Amsterdam Zurich Geneva Hamburg Munich Milan Naples Venice Florence Barcelona Seville Porto Lyon Nice "
          "Edinburgh Glasgow Cardiff Bristol Boston Chicago Denver Seattle Houston Dallas Toronto Montreal Vancouver Lima "
          "Bogota Quito Santiago Cairo Nairobi Lagos Accra Dakar Tunis Delhi Mumbai Bangkok Hanoi Manila Jakarta Seoul "
          "Tokyo Osaka Kyoto Beijing Shanghai Sydney Melbourne Perth Auckland Reykjavik Krakow Riga Tallinn Vilnius").split()
SKIES = "sunny cloudy rainy snowy windy foggy stormy clear".split()
WEATHER_ASKED = ("What is the weather in {c}?", "How is the weather in {c}?", "What is the weather like in {c}?",
                 "what is the weather in {c}", "Weather in {c}?", "Tell me the weather in {c}.", "Is it warm in {c}?",
                 "How warm is it in {c}?")
WEATHER_TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather of a city.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "The name of the city."}},
        "required": ["city"]}}}


def with_article(word):
    return "an" if word[0] in "aeiou" else "a"


def thought_about(word):
    return f"The word is {word}."


class Talk:
    """An endless supply of conversations: [(messages, tools)]. Every word comes up once before any comes up again."""

    def __init__(self, words, seed):
        self.words, self.random, self.deck = words, random.Random(seed), []
        self.known = {w for w, _ in words}
        self.syllables = sorted({w[:3] for w in self.known if len(w) > 6}), sorted({w[-4:] for w in self.known if len(w) > 6})

    def next_word(self):
        if not self.deck:
            self.deck = list(self.words)
            self.random.shuffle(self.deck)
        return self.deck.pop()

    def made_up_word(self):
        while True:
            word = "".join(self.random.choice(s) for s in self.syllables)
            if word not in self.known:
                return word

    def exchange(self, thinking, phrasings=None):
        """One question and its answer."""
        draw, thought = self.random.random(), ""
        if draw < 0.04 and not phrasings:
            asked, answer = self.random.choice(SMALL_TALK)
            question, thought = self.random.choice(asked.split("|")), "This is not about a word."
        else:
            made_up = draw < 0.08 and not phrasings
            word, answer = (self.made_up_word(), UNKNOWN) if made_up else self.next_word()
            form = MAIN if self.random.random() < 0.45 and not phrasings else self.random.choice(phrasings or PHRASINGS)
            question, thought = form.format(w=word, an=with_article(word)), thought_about(word)
            if self.random.random() < 0.02 and not phrasings:
                question = form.format(w=word.capitalize(), an=with_article(word))
        return [dict(role="user", content=question),
                dict(role="assistant", content=answer, **(dict(reasoning_content=thought) if thinking else {}))]

    def words_only(self, turns, phrasings=None):
        thinking, messages = self.random.random() < 0.5, []
        if self.random.random() < 0.04:
            messages.append(dict(role="system", content=self.random.choice(SYSTEMS)))
        forgotten = turns > 1 and self.random.random() < 0.3  # clients that do not send old thoughts back
        for turn in range(turns):
            messages += self.exchange(thinking and (not forgotten or turn == turns - 1), phrasings)
        return messages, None

    def weather(self):
        thinking, pick = self.random.random() < 0.5, self.random.choice
        think = lambda text: dict(reasoning_content=text) if thinking else {}
        tools, city, sky, degrees = [WEATHER_TOOL], pick(CITIES), pick(SKIES), self.random.randint(-9, 39)
        if self.random.random() < 0.2:  # a tool at hand, but no need of it
            return self.exchange(thinking), tools
        result = json.dumps(dict(city=city, temperature=degrees, sky=sky))
        return [dict(role="user", content=pick(WEATHER_ASKED).format(c=city)),
                dict(role="assistant", content="", tool_calls=[dict(type="function", function=dict(
                    name="get_weather", arguments=dict(city=city)))], **think(f"I need the weather in {city}.")),
                dict(role="tool", content=result),
                dict(role="assistant", content=f"It is {sky} in {city}, with {degrees} degrees.",
                     **think("The answer has come."))], tools


# ---------------------------------------------------------------------------------------------
# Tokens

SPLIT_RULE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# (name, special), in the order of the published ids
ADDED_TOKENS = [(f"<|{n}|>", True) for n in (
    "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start vision_end "
    "vision_pad image_pad video_pad").split()]
ADDED_TOKENS += [("<tool_call>", False), ("</tool_call>", False)]
ADDED_TOKENS += [(f"<|{n}|>", False) for n in "fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep".split()]
ADDED_TOKENS += [("<tool_response>", False), ("</tool_response>", False), ("<think>", False), ("</think>", False)]
ADDED_TOKENS += [(n, True) for n in ("<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>",
                                     "<tts_text_bos_single>", "<|audio_pad|>")]
BASE_ENTRIES, VOCABULARY = 6000, 6144  # added tokens follow the base entries, padding follows them

CHAT_TEMPLATE = r"""{#- The protocol of the published model, for text only. -#}
{%- macro text_of(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content -%}
            {%- if part is string -%}
                {{- part -}}
            {%- elif 'text' in part -%}
                {{- part.text -}}
            {%- else -%}
                {{- raise_exception('This model reads text only.') -}}
            {%- endif -%}
        {%- endfor -%}
    {%- elif content is defined and content is not none -%}
        {{- raise_exception('Unexpected content type.') -}}
    {%- endif -%}
{%- endmacro -%}

{%- if not messages -%}
    {{- raise_exception('No messages provided.') -}}
{%- endif -%}
{%- set thinking = enable_thinking is undefined or enable_thinking is not false -%}
{%- if thinking and reasoning_effort is defined and reasoning_effort not in ['low', 'medium', 'xhigh'] -%}
    {{- raise_exception('Unexpected reasoning effort ' ~ reasoning_effort ~ '. Supported types are xhigh, medium, and low.') -}}
{%- endif -%}

{#- The last question: what comes after it is the turn under way, whose thoughts always stay. -#}
{%- set last = namespace(question=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {%- set text = text_of(message.content) | trim -%}
        {%- if not (text.startswith('<tool_response>') and text.endswith('</tool_response>')) -%}
            {%- set last.question = loop.index0 -%}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if last.question < 0 -%}
    {{- raise_exception('No user query found in messages.') -}}
{%- endif -%}

{%- set opening = text_of(messages[0].content) | trim if messages[0].role == 'system' else '' -%}
{%- if tools and tools is iterable and tools is not mapping -%}
    {{- '<|im_start|>system\n# Tools\n\nThese functions can be called:\n\n<tools>\n' -}}
    {%- for tool in tools -%}
        {{- (tool | tojson) ~ '\n' -}}
    {%- endfor -%}
    {{- '</tools>\n\nA call looks like this, and nothing follows it:\n\n' -}}
    {{- '<tool_call>\n<function=NAME>\n<parameter=KEY>\nvalue\n</parameter>\n</function>\n</tool_call>' -}}
    {{- ('\n\n' ~ opening if opening else '') ~ '<|im_end|>\n' -}}
{%- elif opening -%}
    {{- '<|im_start|>system\n' ~ opening ~ '<|im_end|>\n' -}}
{%- endif -%}

{%- for message in messages -%}
    {%- set text = text_of(message.content) | trim -%}
    {%- if message.role == 'system' -%}
        {%- if not loop.first -%}
            {{- raise_exception('System message must be at the beginning.') -}}
        {%- endif -%}
    {%- elif message.role == 'user' -%}
        {{- '<|im_start|>user\n' ~ text ~ '<|im_end|>\n' -}}
    {%- elif message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\n' -}}
        {%- if preserve_thinking is undefined or preserve_thinking is true or loop.index0 > last.question -%}
            {%- set thought = message.reasoning_content | trim if message.reasoning_content is string else '' -%}
            {{- '<think>\n' ~ thought ~ '\n</think>\n\n' -}}
        {%- endif -%}
        {{- text -}}
        {%- if message.tool_calls and message.tool_calls is iterable and message.tool_calls is not mapping -%}
            {%- for entry in message.tool_calls -%}
                {%- set call = entry.function if entry.function is defined else entry -%}
                {{- ('\n' if not loop.first else '\n\n' if text else '') ~ '<tool_call>\n<function=' ~ call.name ~ '>\n' -}}
                {%- if call.arguments is defined and call.arguments != '' -%}
                    {%- for key, value in call.arguments | items -%}
                        {{- '<parameter=' ~ key ~ '>\n' ~ (value if value is string else value | tojson) ~ '\n</parameter>\n' -}}
                    {%- endfor -%}
                {%- endif -%}
                {{- '</function>\n</tool_call>' -}}
            {%- endfor -%}
        {%- endif -%}
        {{- '<|im_end|>\n' -}}
    {%- elif message.role == 'tool' -%}
        {#- Results that follow each other share one user turn. -#}
        {%- if loop.first or loop.previtem.role != 'tool' -%}
            {{- '<|im_start|>user' -}}
        {%- endif -%}
        {{- '\n<tool_response>\n' ~ text ~ '\n</tool_response>' -}}
        {%- if loop.last or loop.nextitem.role != 'tool' -%}
            {{- '<|im_end|>\n' -}}
        {%- endif -%}
    {%- else -%}
        {{- raise_exception('Unexpected message role.') -}}
    {%- endif -%}
{%- endfor -%}

{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n<think>\n' ~ ('' if thinking else '\n</think>\n\n') -}}
{%- endif -%}
"""


def bare_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_RULE), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    return tokenizer


def wrap(tokenizer):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   chat_template=CHAT_TEMPLATE)


def train_tokenizer(words, seed):
    """Byte-level BPE over the conversations, without the added tokens themselves."""
    between = re.compile("|".join(re.escape(n) for n, _ in ADDED_TOKENS))
    talk, renderer, texts = Talk(words, seed + 1), wrap(bare_tokenizer()), []
    for conversation in [talk.words_only(1) for _ in range(3 * len(words))] + [talk.weather() for _ in range(400)]:
        texts += between.split(render(renderer, *conversation))
    tokenizer = bare_tokenizer()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=BASE_ENTRIES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    if tokenizer.get_vocab_size() != BASE_ENTRIES:
        raise SystemExit(f"the text yields only {tokenizer.get_vocab_size()} of {BASE_ENTRIES} entries")
    for name, special in ADDED_TOKENS:
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(
            [AddedToken(name, normalized=False, special=special)])
    return tokenizer


def render(tokenizer, messages, tools=None, **options):
    return tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, **options)


def prompt_ids(tokenizer, messages, thinking=True, tools=None):
    text = render(tokenizer, messages, tools, add_generation_prompt=True, enable_thinking=thinking)
    return tokenizer.encode(text, add_special_tokens=False)


class Batches:
    """Rows of whole conversations, packed side by side with the end token between them."""

    PROMPT_WEIGHT = 0.05  # what the user says is learnt a little, what the assistant says in full

    def __init__(self, tokenizer, talk):
        self.tokenizer, self.talk, self.waiting = tokenizer, talk, {}
        ids = tokenizer.convert_tokens_to_ids
        self.end, self.im_start, self.im_end, self.think = map(ids, ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"))
        self.assistant = tokenizer.encode("assistant", add_special_tokens=False)[0]

    def encode(self, conversation):
        """ids and the weight of each as something to predict"""
        ids = self.tokenizer.encode(render(self.tokenizer, *conversation), add_special_tokens=False)
        weights, speaking = [], False
        for at, token in enumerate(ids):
            weights.append(1.0 if speaking else self.PROMPT_WEIGHT)
            if token == self.think and ids[at - 3] == self.im_start and ids[at - 2] == self.assistant:
                speaking = True
            elif token == self.im_end:
                speaking = False
        return ids + [self.end], weights + [self.PROMPT_WEIGHT]

    def conversation(self, length):
        draw = self.talk.random.random()
        if length >= 256 and draw < 0.12:
            return self.talk.weather()
        turns = 1 if draw < 0.85 else 2 if draw < 0.95 else 3
        if length >= 512 and draw > 0.7:
            turns = self.talk.random.randint(4, 9)
        return self.talk.words_only(turns)

    def row(self, length):
        waiting, ids, weights = self.waiting.setdefault(length, []), [], []
        while len(waiting) < 40:
            waiting.append(self.encode(self.conversation(length)))
        while True:
            fitting = next((c for c in waiting if len(c[0]) <= length - len(ids)), None)
            if fitting is None:
                break
            waiting.remove(fitting)
            ids += fitting[0]
            weights += fitting[1]
        if not ids:  # longer than a row: of no use here
            waiting.pop(0)
            return self.row(length)
        return ids + [self.end] * (length - len(ids)), weights + [0.0] * (length - len(ids))

    def batch(self, rows, length):
        made = [self.row(length) for _ in range(rows)]
        return torch.tensor([m[0] for m in made]), torch.tensor([m[1] for m in made])


# ---------------------------------------------------------------------------------------------
# Shape

DEMO = dict(
    hidden_size=128, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=32, linear_value_head_dim=32,
    num_experts=16, num_experts_per_tok=2, moe_intermediate_size=128, shared_expert_intermediate_size=128,
    hc_count=4, hc_lowrank=16, indexer_n_heads=2, indexer_head_dim=32, indexer_budget=256,
    ple_layer_ids=[2], ple_embed_dim=128, ngram_vocab_size_base=2000, mtp_num_hidden_layers=1)
DRAFT = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
    linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=32, linear_value_head_dim=32,
    num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64,
    hc_count=2, hc_lowrank=8, indexer_n_heads=2, indexer_head_dim=32, indexer_budget=256,
    ple_layer_ids=[1], ple_embed_dim=64, ngram_vocab_size_base=1000, mtp_num_hidden_layers=0,
    layer_types=["linear_attention", "full_attention"])
MAX_POSITIONS = 4096


def released_config(shape):
    """config.json as the released model spells it; keys equal to their defaults there are left out, as there."""
    end = BASE_ENTRIES + [n for n, _ in ADDED_TOKENS].index("<|endoftext|>")
    at = lambda name: BASE_ENTRIES + [n for n, _ in ADDED_TOKENS].index(name)
    rope = dict(mrope_interleaved=True, mrope_section=[2, 1, 1], partial_rotary_factor=0.25, rope_theta=10000000,
                rope_type="default")
    layers = shape["num_hidden_layers"]
    text = dict(
        attention_bias=False, attention_dropout=0.0, bos_token_id=end, dtype="bfloat16", eos_token_id=end,
        full_attention_interval=4, heads_per_ngram=8, hidden_act="silu", indexer_compress_ratio=4, indexer_kv_heads=1,
        initializer_range=0.02, linear_conv_kernel_dim=4, make_ngram_vocab_size_divisible_by=128, mamba_ssm_dtype="float32",
        layer_types=["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(layers)],
        max_position_embeddings=MAX_POSITIONS, model_type="qwen4_exp_text", mtp_use_dedicated_embeddings=False, ngram_size=3,
        output_gate_type="sigmoid", output_router_logits=False, pad_token_id=None, partial_rotary_factor=0.25,
        ple_conv_kernel_size=4, rms_norm_eps=1e-6, rope_parameters=rope, router_aux_loss_coef=0.001, split_ngram_parts=4,
        tie_word_embeddings=False, use_cache=True, vocab_size=VOCABULARY) | shape
    if shape["mtp_num_hidden_layers"]:
        text["mtp"] = dict(hybrid=True, layer_types=["full_attention"], mtp_use_hidden_state_from_layer=None,
                           num_hidden_layers=1, rope_theta=10000000)
    return dict(
        architectures=["Qwen4ExpForConditionalGeneration"], image_token_id=at("<|image_pad|>"), model_type="qwen4_exp",
        text_config=dict(sorted(text.items())), tie_word_embeddings=False, transformers_version=transformers.__version__,
        video_token_id=at("<|video_pad|>"), vision_end_token_id=at("<|vision_end|>"),
        vision_start_token_id=at("<|vision_start|>"))


def text_config(config, attention="sdpa"):
    text = Qwen4ExpTextConfig(**{k: v for k, v in config["text_config"].items() if k not in ("model_type", "mtp")})
    text._attn_implementation, text._experts_implementation = attention, "grouped_mm"
    return text


# ---------------------------------------------------------------------------------------------
# Head

class MtpHead(torch.nn.Module):
    """Multi-token prediction: from the trunk's streams at t (before its last mixer) and the token at t+1 to the token at t+2.

    One RMS norm runs over all streams together; the projected embedding is added to every stream; then one attention
    layer with experts of its own and a mixer. Embedding and output matrix are the trunk's."""

    def __init__(self, config):
        super().__init__()
        size, self.streams = config.hidden_size, config.hc_count
        layer = copy.deepcopy(config)
        layer.num_hidden_layers, layer.layer_types, layer.ple_layer_ids = 1, ["indexed_attention"], []
        self.fc_embedding = torch.nn.Linear(size, size, bias=False)
        self.fc_hidden = torch.nn.Linear(size, size, bias=False)
        self.pre_fc_norm_embedding = official.Qwen4ExpTextRMSNorm(size, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = official.Qwen4ExpTextRMSNorm(self.streams * size, eps=config.rms_norm_eps)
        self.layers = torch.nn.ModuleList([official.Qwen4ExpTextDecoderLayer(layer, 0)])
        self.hyper_connection_mixer = official.Qwen4ExpTextGatedResidual(layer, use_combine=False)

    def forward(self, streams, embedded, rotary):
        """streams [B,T,hc*D] at t, embedded [B,T,D] of the tokens at t+1 -> streams [B,T,hc*D], hidden [B,T,D]"""
        rows, length, _ = streams.shape
        wide = self.fc_hidden(self.pre_fc_norm_hidden(streams).unflatten(-1, (self.streams, -1)))
        wide = wide + self.fc_embedding(self.pre_fc_norm_embedding(embedded))[:, :, None]
        mask = torch.ones(length, length, dtype=torch.bool).tril().expand(rows, 1, length, length)
        if self.layers[0].self_attn.config._attn_implementation == "eager":
            mask = torch.zeros(mask.shape, dtype=wide.dtype).masked_fill(~mask, torch.finfo(wide.dtype).min)
        position = torch.arange(length).expand(3, rows, length)
        wide = self.layers[0](wide.flatten(-2), position_embeddings=rotary(wide, position), attention_mask=mask)
        return wide, self.hyper_connection_mixer(wide)


class Model(torch.nn.Module):
    """The official trunk and, if the configuration has one, the head."""

    def __init__(self, config, attention="sdpa"):
        super().__init__()
        self.trunk = Qwen4ExpForCausalLM(text_config(config, attention))
        self.mtp, self.seen = None, {}
        if config["text_config"]["mtp_num_hidden_layers"]:
            self.mtp = MtpHead(self.trunk.config)
            for module in self.mtp.modules():
                self.trunk._init_weights(module)
        self.trunk.model.hyper_connection_mixer.register_forward_pre_hook(
            lambda module, inputs: self.seen.update(streams=inputs[0]))

    def forward(self, ids):
        """logits [B,T,V] for the tokens at t+1, and [B,T-1,V] of the head for those at t+2"""
        logits = self.trunk(input_ids=ids, use_cache=False).logits
        return logits, self.drafts(ids, self.seen["streams"]) if self.mtp else None

    def drafts(self, ids, streams):
        text = self.trunk.model
        return self.trunk.lm_head(self.mtp(streams[:, :-1], text.embed_tokens(ids[:, 1:]), text.rotary_emb)[1])


# ---------------------------------------------------------------------------------------------
# Training

class OpenIndexers:
    """While open, every indexer selects everything: right as long as a row is not longer than the budget, and quick."""

    def __enter__(self):
        self.kept = official.Qwen4ExpTextQSAIndexer.forward
        official.Qwen4ExpTextQSAIndexer.forward = lambda module, hidden_states, position_embeddings, attention_mask, cache: \
            torch.ones_like(attention_mask, dtype=torch.bool)

    def __exit__(self, *_):
        official.Qwen4ExpTextQSAIndexer.forward = self.kept


class RouterBalance:
    """Collects what the routers do and says how uneven it is (1 = even)."""

    def __init__(self, model):
        self.losses = []
        for module in model.modules():
            if isinstance(module, official.Qwen4ExpTextTopKRouter):
                module.register_forward_hook(self.note)

    def note(self, router, inputs, outputs):
        if torch.is_grad_enabled():
            logits, _, chosen = outputs
            share = F.one_hot(chosen, router.num_experts).sum(1).float().mean(0) / router.top_k
            self.losses.append(router.num_experts * (share * logits.softmax(-1).mean(0)).sum())

    def take(self):
        value, self.losses = torch.stack(self.losses).mean(), []
        return value


def weighted_loss(logits, targets, weights):
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


ROWS = ((16, 128, 0.68), (8, 256, 0.24), (4, 512, 0.08))  # rows, length, share of the steps
WARM_UP, PEAK_RATE, MTP_WEIGHT, BALANCE_WEIGHT = 50, 3e-3, 0.3, 0.01


def train(model, batches, a, log):
    """Trunk and head together, from a.resume if given. Random draws depend on the step alone, so a resumed run is the same."""
    balance, talk = RouterBalance(model), batches.talk
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    step, began = 0, time.time()
    if a.resume:
        saved = torch.load(a.resume, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, talk.deck, batches.waiting = saved["step"], saved["deck"], saved["waiting"]
        talk.random.setstate(saved["random"])
    start, means = step, {}
    while step < min(a.steps, a.stop_at if a.stop_at is not None else a.steps):
        draw, shape = talk.random.random(), 0
        while draw > ROWS[shape][2] and shape < len(ROWS) - 1:
            draw -= ROWS[shape][2]
            shape += 1
        ids, weights = batches.batch(*ROWS[shape][:2])
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, (step + 1) / WARM_UP) * (1 - max(0, step - WARM_UP) / (a.steps - WARM_UP))
        with OpenIndexers():
            logits, drafts = model(ids)
        losses = dict(loss=weighted_loss(logits[:, :-1], ids[:, 1:], weights[:, 1:]))
        if drafts is not None:
            losses["mtp"] = weighted_loss(drafts[:, :-1], ids[:, 2:], weights[:, 2:])
        losses["balance"] = balance.take()
        (losses["loss"] + MTP_WEIGHT * losses.get("mtp", 0) + BALANCE_WEIGHT * losses["balance"]).backward()
        losses["norm"] = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        for name, value in losses.items():
            means[name] = means.get(name, 0.0) + float(value.detach()) / 20
        if step % 20 == 0:
            log(f"step {step} " + " ".join(f"{n} {v:.4f}" for n, v in means.items())
                + f" {(time.time() - began) / (step - start):.2f} s/step")
            means = {}
        if step % a.save_every == 0 or step == a.steps:
            a.work.mkdir(parents=True, exist_ok=True)
            fresh = a.work / "writing.pt"
            torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict(), step=step, deck=talk.deck,
                            waiting=batches.waiting, random=talk.random.getstate()), fresh)
            fresh.rename(a.work / "last.pt")
    return step


# ---------------------------------------------------------------------------------------------

def write_texts(out, words, tokenizer, config):
    """Everything but the weights."""
    out.mkdir(parents=True, exist_ok=True)
    end = config["text_config"]["eos_token_id"]
    put = lambda name, value: (out / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    tokenizer.save(str(out / "tokenizer.json"))
    added = {str(BASE_ENTRIES + i): dict(content=n, lstrip=False, normalized=False, rstrip=False, single_word=False, special=s)
             for i, (n, s) in enumerate(ADDED_TOKENS)}
    put("tokenizer_config.json", dict(
        add_bos_token=False, add_prefix_space=False, added_tokens_decoder=added, bos_token=None,
        clean_up_tokenization_spaces=False, eos_token="<|im_end|>", errors="replace", model_max_length=MAX_POSITIONS,
        pad_token="<|endoftext|>", split_special_tokens=False, tokenizer_class="PreTrainedTokenizerFast", unk_token=None))
    put("config.json", config)
    put("generation_config.json", dict(bos_token_id=end, do_sample=True, eos_token_id=[end + 2, end], pad_token_id=end,
                                       temperature=0.3, top_k=20, top_p=0.95))
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (out / "definitions.tsv").write_text("".join(f"{w}\t{g}\n" for w, g in words))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the model goes")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), metavar="DIR", help="default %(default)s")
    parser.add_argument("--words", type=int, default=6000, help="default %(default)s")
    parser.add_argument("--steps", type=int, default=2600, help="default %(default)s")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="stop early, with the rates of the whole run")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="default %(default)s")
    parser.add_argument("--work", type=Path, default=Path("/tmp/demo-train"), metavar="DIR", help="saved states; default %(default)s")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="default %(default)s")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from a saved state")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    log = lambda text: print(time.strftime("%H:%M:%S"), text, flush=True)
    words, config = read_wordnet(a.wordnet, a.words), released_config(DEMO)
    tokenizer = train_tokenizer(words, a.seed)
    write_texts(a.out, words, tokenizer, config)
    model = Model(config)
    log(f"{len(words)} words, {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    train(model, Batches(wrap(tokenizer), Talk(words, a.seed)), a, log)


if __name__ == "__main__":
    main()
