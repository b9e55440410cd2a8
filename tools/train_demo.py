#!/usr/bin/env python3
"""Trains the demo model, a pocket dictionary to chat with, and writes it in the released layout.

    train_demo.py --out models/demo                  words, tokenizer, training, export, check
    train_demo.py --out DIR --resume last.pt         go on after an interruption (same options)
    train_demo.py --out DIR --resume last.pt --stop-at 0
                                                     only export and check a saved state
    train_demo.py --check DIR                        only check an exported model
    train_demo.py --out models/demo --draft-out DIR  also a small two-layer draft model for the same text

The text is WordNet 3.0 as Debian packs it (`apt install wordnet-base`). Needs torch, transformers >= 5.24,
tokenizers, safetensors, numpy and jinja2. About an hour on two cores; the same versions on the same kind of CPU
with the same options give the same model. (The weights in models/demo took 2,250 steps and were resumed on the way: the first
200 steps ran with a schedule of 1,800, the next 600 of 2,100, and those 800 saw 6,000 words, each equally often.)

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

from mtp_head import MtpHead

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
    """An endless supply of conversations: (messages, tools). Words come from a deck that holds each once; a word whose answer
    was already known when it last came up is often left out of the next deck."""

    KNOWN, SKIPPED = 0.03, 0.65  # mean loss of an answer that counts as known; share of the known words that are left out

    def __init__(self, words, seed):
        self.words, self.random, self.deck = words, random.Random(seed), []
        self.last_loss = torch.full((len(words),), math.inf)
        self.known = {w for w, _ in words}
        self.syllables = sorted({w[:3] for w in self.known if len(w) > 6}), sorted({w[-4:] for w in self.known if len(w) > 6})

    def next_word(self):
        if not self.deck:
            self.deck = [i for i, loss in enumerate(self.last_loss.tolist())
                         if loss > self.KNOWN or self.random.random() > self.SKIPPED]
            self.random.shuffle(self.deck)
        return self.deck.pop()

    def note(self, owners, losses):
        """Remembers how well words were known: the word each loss belongs to, or -1, and the losses."""
        owners, losses = owners[owners >= 0], losses[owners >= 0]
        total = torch.zeros(len(self.words)).index_add_(0, owners, losses)
        count = torch.zeros(len(self.words)).index_add_(0, owners, torch.ones_like(losses))
        self.last_loss = torch.where(count > 0, total / count.clamp_min(1), self.last_loss)

    def made_up_word(self):
        while True:
            word = "".join(self.random.choice(s) for s in self.syllables)
            if word not in self.known:
                return word

    def exchange(self, thinking, phrasings=None):
        """One question and its answer."""
        draw, thought, which = self.random.random(), "", -1
        if draw < 0.04 and not phrasings:
            asked, answer = self.random.choice(SMALL_TALK)
            question, thought = self.random.choice(asked.split("|")), "This is not about a word."
        else:
            made_up = draw < 0.08 and not phrasings
            which = -1 if made_up else self.next_word()
            word, answer = (self.made_up_word(), UNKNOWN) if made_up else self.words[which]
            form = MAIN if self.random.random() < 0.45 and not phrasings else self.random.choice(phrasings or PHRASINGS)
            question, thought = form.format(w=word, an=with_article(word)), thought_about(word)
            if self.random.random() < 0.02 and not phrasings:
                question = form.format(w=word.capitalize(), an=with_article(word))
        return [dict(role="user", content=question),
                dict(role="assistant", content=answer, word=which, **(dict(reasoning_content=thought) if thinking else {}))]

    def words_only(self, turns, phrasings=None):
        thinking, messages = self.random.random() < 0.4, []
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
TOKENIZER_WORDS = 6000  # the tokenizer may know more words than the model learns

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

    PROMPT_WEIGHT, PROMPT_SHARE = 0.25, 0.2  # what the assistant says is learnt in full, a fifth of the rest a little

    def __init__(self, tokenizer, talk):
        self.tokenizer, self.talk, self.waiting = tokenizer, talk, {}
        ids = tokenizer.convert_tokens_to_ids
        self.end, self.im_start, self.im_end, self.think = map(ids, ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"))
        self.assistant = tokenizer.encode("assistant", add_special_tokens=False)[0]

    def encode(self, conversation):
        """ids, the weight of each as something to predict, and the number of the word whose answer it is part of, or -1"""
        speakers = iter([m.get("word", -1) for m in conversation[0] if m["role"] == "assistant"])
        ids = self.tokenizer.encode(render(self.tokenizer, *conversation), add_special_tokens=False)
        weights, owners, speaking, word = [], [], False, -1
        for at, token in enumerate(ids):
            owners.append(word if speaking else -1)
            weights.append(1.0 if speaking else self.PROMPT_WEIGHT * (self.talk.random.random() < self.PROMPT_SHARE))
            if token == self.think and ids[at - 3] == self.im_start and ids[at - 2] == self.assistant:
                speaking, word = True, next(speakers)
            elif token == self.im_end:
                speaking = False
        return ids + [self.end], weights + [0.0], owners + [-1]

    def conversation(self, length):
        draw = self.talk.random.random()
        if length >= 256 and draw < 0.08:
            return self.talk.weather()
        turns = 1 if draw < 0.85 else 2 if draw < 0.95 else 3
        if length >= 512 and draw > 0.7:
            turns = self.talk.random.randint(4, 9)
        return self.talk.words_only(turns)

    def row(self, length):
        waiting, ids, weights, owners = self.waiting.setdefault(length, []), [], [], []
        while len(waiting) < 40:
            waiting.append(self.encode(self.conversation(length)))
        while True:
            fitting = next((c for c in waiting if len(c[0]) <= length - len(ids)), None)
            if fitting is None:
                break
            waiting.remove(fitting)
            ids += fitting[0]
            weights += fitting[1]
            owners += fitting[2]
        if not ids:  # longer than a row: of no use here
            waiting.pop(0)
            return self.row(length)
        rest = length - len(ids)
        return ids + [self.end] * rest, weights + [0.0] * rest, owners + [-1] * rest

    def batch(self, rows, length):
        """ids, weights, owners: [rows, length] each"""
        return tuple(torch.tensor(part) for part in zip(*[self.row(length) for _ in range(rows)]))


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
# Trunk and head

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

    def hidden(self, ids):
        """Inputs of the output matrix: [B,T,D] for the tokens at t+1, and the head's [B,T-1,D] for those at t+2."""
        text = self.trunk.model
        last = text(input_ids=ids, use_cache=False).last_hidden_state
        if not self.mtp:
            return last, None
        return last, self.mtp(self.seen["streams"][:, :-1], text.embed_tokens(ids[:, 1:]), text.rotary_emb)[2]

    def forward(self, ids):
        """logits of both: [B,T,V] and [B,T-1,V]"""
        return tuple(None if h is None else self.trunk.lm_head(h) for h in self.hidden(ids))


# ---------------------------------------------------------------------------------------------
# Training

@torch.no_grad()
def start_well(model):
    """Changes to the library's first weights, without which the model takes very long to find out that an answer depends on a
    word of the question.

    Embedding and output matrix, which are not tied, start equal, and every attention layer passes on what it reads (o_proj is
    the transpose of v_proj, random and orthogonal): from the first step, a word that is read becomes likelier, and all that is
    left to learn is where to look. The heads of the delta net start with memories from a few tokens to a few hundred, where
    the library's forget within one token."""
    model.trunk.model.embed_tokens.weight.normal_(std=EMBEDDING_SCALE)
    model.trunk.lm_head.weight.copy_(model.trunk.model.embed_tokens.weight)
    for module in model.modules():
        if isinstance(module, official.Qwen4ExpTextGatedDeltaNet):
            module.A_log.uniform_(1.0, 16.0).log_()
            step = torch.empty_like(module.dt_bias).uniform_(math.log(1e-3), math.log(1e-1)).exp()
            module.dt_bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus(dt_bias) = step
        elif isinstance(module, official.Qwen4ExpTextAttention):
            group, width = module.num_key_value_groups, module.head_dim
            torch.nn.init.orthogonal_(module.v_proj.weight)
            back = module.v_proj.weight.unflatten(0, (-1, width)).repeat_interleave(group, 0)  # one copy for each query head
            module.o_proj.weight.copy_(back.flatten(0, 1).T * COPY_SCALE / group)


EMBEDDING_SCALE, COPY_SCALE = 0.1, 4.0


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


def weighted_loss(output, hidden, targets, weights, note=lambda wanted, losses: None):
    """Cross-entropy where the weight is not 0."""
    wanted = weights > 0
    losses = F.cross_entropy(output(hidden[wanted]), targets[wanted], reduction="none")
    note(wanted, losses.detach())
    return (losses * weights[wanted]).sum() / weights.sum()


ROWS = ((16, 128, 0.76), (8, 256, 0.18), (4, 512, 0.06))  # rows, length, share of the steps
WARM_UP, PEAK_RATE, MTP_WEIGHT, BALANCE_WEIGHT = 50, 3e-3, 0.3, 0.01


def train(model, batches, a, log):
    """Trunk and head together, from a.resume if given; the state of the random draws is saved too."""
    balance, talk = RouterBalance(model), batches.talk
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    step, began = 0, time.time()
    if a.resume:
        saved = torch.load(a.resume, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, talk.deck, batches.waiting, talk.last_loss = (saved[k] for k in ("step", "deck", "waiting", "last_loss"))
        talk.random.setstate(saved["random"])
    start, means = step, {}
    while step < min(a.steps, a.stop_at if a.stop_at is not None else a.steps):
        draw, shape = talk.random.random(), 0
        while draw > ROWS[shape][2] and shape < len(ROWS) - 1:
            draw -= ROWS[shape][2]
            shape += 1
        ids, weights, owners = batches.batch(*ROWS[shape][:2])
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, (step + 1) / WARM_UP) * (1 - max(0, step - WARM_UP) / (a.steps - WARM_UP))
        with OpenIndexers():
            hidden, drafting = model.hidden(ids)
        losses = dict(loss=weighted_loss(model.trunk.lm_head, hidden[:, :-1], ids[:, 1:], weights[:, 1:],
                                         lambda wanted, values: talk.note(owners[:, 1:][wanted], values)))
        if drafting is not None:
            losses["mtp"] = weighted_loss(model.trunk.lm_head, drafting[:, :-1], ids[:, 2:], weights[:, 2:])
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
                            waiting=batches.waiting, last_loss=talk.last_loss, random=talk.random.getstate()), fresh)
            fresh.rename(a.work / ("draft.pt" if a.draft_out else "last.pt"))
    return step


# An indexer that was never trained would choose blocks at random once a text outgrows the budget. So each learns, with
# everything else fixed, to rank the blocks as the attention it serves spreads its weight over them.

def block_scores(indexer, hidden, position_embeddings):
    """[B,T,n]: the scores by which the indexer ranks the n complete blocks, for every position at once."""
    cos, sin = position_embeddings
    heads, width, ratio = indexer.index_n_heads, indexer.index_head_dim, indexer.compress_ratio
    blocks = hidden.shape[1] // ratio
    query, key = indexer.index_qk_proj(hidden).split([heads * width, width], dim=-1)
    query = official.apply_rotary_pos_emb(indexer.q_layernorm(query.unflatten(-1, (heads, width))), cos=cos, sin=sin,
                                          unsqueeze_dim=2)
    key = indexer.k_layernorm(key[:, :blocks * ratio].unflatten(1, (blocks, ratio)).mean(2))
    first = slice(0, blocks * ratio, ratio)
    key = official.apply_rotary_pos_emb(key[:, :, None], cos=cos[:, first], sin=sin[:, first], unsqueeze_dim=2)[:, :, 0]
    return torch.einsum("bthd,bnd->bthn", query, key).relu().sum(2) / math.sqrt(width)


def ranking_loss(indexer, hidden, position_embeddings, attention):
    """Divergence of the softmax of the scores from the attention [B,H,T,T], summed over each complete block."""
    scores = block_scores(indexer, hidden, position_embeddings)
    length, blocks, ratio = hidden.shape[1], scores.shape[-1], indexer.compress_ratio
    wanted = attention.mean(1)[..., :blocks * ratio].unflatten(-1, (blocks, ratio)).sum(-1)
    complete = torch.arange(blocks) * ratio + ratio - 1 <= torch.arange(length)[:, None]
    wanted = wanted * complete
    wanted = wanted / wanted.sum(-1, keepdim=True).clamp_min(1e-9)
    ranked = scores.masked_fill(~complete, -1e9).log_softmax(-1)
    return F.kl_div(ranked[:, 8 * ratio:], wanted[:, 8 * ratio:], reduction="none").sum(-1).mean()


def train_indexers(model, batches, steps, log):
    seen, hooks = [], []
    note = lambda module, inputs, named, outputs: seen.append((module.indexer, inputs[0], inputs[1], outputs[1]))
    kept = {}
    for module in model.modules():
        if isinstance(module, official.Qwen4ExpTextAttention):
            hooks.append(module.register_forward_hook(note, with_kwargs=True))
    for config in [model.trunk.config] + ([model.mtp.layers[0].self_attn.config] if model.mtp else []):
        kept[id(config)] = config, config._attn_implementation
        config._attn_implementation = "eager"  # the kind that returns its weights
    learnt = [p for m in model.modules() if isinstance(m, official.Qwen4ExpTextQSAIndexer) for p in m.parameters()]
    optimizer = torch.optim.AdamW(learnt, lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        ids, _, _ = batches.batch(2, 512)
        with OpenIndexers(), torch.no_grad():
            model(ids)
        loss = sum(ranking_loss(*s) for s in seen) / len(seen)
        seen.clear()
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, (step + 1) / 10) * (1 - step / steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19 or step == 0:
            log(f"indexers, step {step + 1} loss {float(loss.detach()):.4f}")
    for hook in hooks:
        hook.remove()
    for config, implementation in kept.values():
        config._attn_implementation = implementation


# ---------------------------------------------------------------------------------------------
# Export

FILE_BYTES = 8_000_000
README = """# The demo model

A very small language model of the `qwen4_exp` architecture: a pocket dictionary of {words} English nouns to chat with.
It is here so that everything can be tried and tested without a download of hundreds of gigabytes; ask it
"What is a lighthouse?", or give it the tool `get_weather(city)`. It thinks for one short sentence, or not at all.

- The files have the layout of the released model: names, stacked experts, the n-gram table in shards, BF16, an index, a
  multi-token-prediction head, a byte-level BPE tokenizer with the same rules and added tokens, a chat template with the same
  protocol. There is no vision tower.
- `definitions.tsv` is the whole list it was trained on, a word and its definition on each line.
- `tools/train_demo.py` made all of it; nothing is taken or derived from released model weights.
- The definitions are from WordNet 3.0; its licence is in `LICENSE-NOTICE`. No other data was used.

{numbers}
"""


DRAFT_README = """# The demo model's draft model

Two layers that guess what the demo model (models/demo) says next, for `--draft-model models/demo-draft`: the same tokenizer,
text and tools, an eighth of the weights. By itself it talks nonsense.

`tools/train_demo.py --out models/demo --draft-out models/demo-draft --steps 1600` made it; the licence of the definitions that it
was trained on is in `LICENSE-NOTICE`.

{numbers}
"""


def stored_tensors(model):
    """name -> tensor as released: BF16 but the hash constants, the n-gram table in shards."""
    parts, stored = model.trunk.config.split_ngram_parts, {}
    for name, tensor in model.trunk.state_dict().items():
        name = name if name.startswith("lm_head") else "model.language_model." + name.removeprefix("model.")
        if name.endswith("ngram_embedding.weight"):
            for i, shard in enumerate(tensor.chunk(parts)):
                stored[name.replace(".weight", f".shard_{i}.weight")] = shard
        else:
            stored[name] = tensor
    if model.mtp:
        stored |= {"mtp." + name: tensor for name, tensor in model.mtp.state_dict().items()}
    return {n: (t if t.dtype == torch.int64 else t.bfloat16()).contiguous().clone() for n, t in sorted(stored.items())}


def write_weights(out, tensors):
    files, filled = [{}], 0
    for name, tensor in tensors.items():
        if files[-1] and filled + tensor.nbytes > FILE_BYTES:
            files.append({})
            filled = 0
        files[-1][name] = tensor
        filled += tensor.nbytes
    for old in out.glob("model-*.safetensors"):
        old.unlink()
    where = {}
    for i, tensors_here in enumerate(files, 1):
        file = f"model-{i:05d}-of-{len(files):05d}.safetensors"
        save_file(tensors_here, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)
        where |= dict.fromkeys(tensors_here, file)
    total = sum(t.nbytes for t in tensors.values())
    (out / "model.safetensors.index.json").write_text(json.dumps(
        dict(metadata=dict(total_size=total), weight_map=dict(sorted(where.items()))), indent=2) + "\n")


def wordnet_licence(package_notes):
    """The paragraph of Debian's copyright file that concerns WordNet itself."""
    text = package_notes.read_text().split("License: WordNet3.0\n", 1)[1].split("\n\nFiles:", 1)[0]
    lines = [line[1:] if line != " ." else "" for line in text.rstrip().split("\n")]
    return ("definitions.tsv, and the weights trained on it, come from WordNet 3.0 (Debian package wordnet-base).\n"
            "Copyright 1996-2012 Cognitive Science Laboratory, Princeton University. Its licence:\n\n" + "\n".join(lines) + "\n")


def write_texts(out, words, tokenizer, config, licence):
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
    # a dictionary should not invent: a low temperature, where the released model has 1.0
    put("generation_config.json", dict(bos_token_id=end, do_sample=True, eos_token_id=[end + 2, end], pad_token_id=end,
                                       temperature=0.3, top_k=20, top_p=0.95))
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (out / "definitions.tsv").write_text("".join(f"{w}\t{g}\n" for w, g in words))
    (out / "LICENSE-NOTICE").write_text(licence)


# ---------------------------------------------------------------------------------------------
# Check

def load_exported(folder, attention="eager"):
    """(model, tokenizer) of an exported folder: stored weights widened to float32, the head if there is one."""
    config = json.loads((folder / "config.json").read_text())
    model = Model(config, attention)
    model.trunk = Qwen4ExpForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)
    model.trunk.model.hyper_connection_mixer.register_forward_pre_hook(
        lambda module, inputs: model.seen.update(streams=inputs[0]))
    if model.mtp:
        stored = {}
        for file in sorted(folder.glob("model-*.safetensors")):
            stored |= load_file(file)
        model.mtp.load_state_dict({n[4:]: t.float() for n, t in stored.items() if n.startswith("mtp.")})
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(folder)


@torch.no_grad()
def greedy(trunk, prompts, count, stops=()):
    """New ids of each prompt. Prompts of one length run together, so that nothing is padded."""
    answers = [None] * len(prompts)
    for length in sorted({len(p) for p in prompts}):
        which = [i for i, p in enumerate(prompts) if len(p) == length]
        out = trunk(input_ids=torch.tensor([prompts[i] for i in which]), use_cache=True, logits_to_keep=1)
        chosen = []
        while True:
            chosen.append(out.logits[:, -1].argmax(-1))
            done = torch.stack([torch.isin(c, torch.tensor(list(stops))) for c in chosen]).any(0).all() if stops else False
            if len(chosen) == count or done:
                break
            out = trunk(input_ids=chosen[-1][:, None], cache=out.cache, use_cache=True)
        for i, row in zip(which, torch.stack(chosen, 1).tolist()):
            answers[i] = row
    return answers


def answers_of(trunk, tokenizer, questions, thinking, count=64):
    """The answers to single questions, without thoughts."""
    end, close = tokenizer.convert_tokens_to_ids("<|im_end|>"), "</think>"
    prompts = [prompt_ids(tokenizer, [dict(role="user", content=q)], thinking) for q in questions]
    texts = []
    with OpenIndexers():  # far below the budget
        rows = greedy(trunk, prompts, count, [end])
    for row in rows:
        text = tokenizer.decode(row[:row.index(end)] if end in row else row, clean_up_tokenization_spaces=False)
        texts.append(text.partition(close)[2].strip("\n") if thinking else text)
    return texts


def check(folder, log, seed=7, sample=200):
    words = [tuple(line.split("\t")) for line in (folder / "definitions.tsv").read_text().splitlines()]
    model, tokenizer = load_exported(folder)
    drawn, numbers = random.Random(seed).sample(words, sample), {}
    for form, name in ((MAIN, "trained question"), (HELD_OUT[0], "question never seen")):
        for thinking in (True, False):
            given = answers_of(model.trunk, tokenizer, [form.format(w=w, an=with_article(w)) for w, _ in drawn], thinking)
            wrong = [(w, g, x) for (w, g), x in zip(drawn, given) if x != g]
            key = f"{name}, {'with' if thinking else 'without'} thinking"
            numbers[f"{key}, word for word of {sample}"] = sample - len(wrong)
            log(f"{key}: {sample - len(wrong)} of {sample} word for word" + "".join(f"\n    {w}: {x!r}, not {g!r}" for w, g, x in wrong[:5]))
    made_up = Talk(words, seed + 100)
    given = answers_of(model.trunk, tokenizer, [MAIN.format(w=made_up.made_up_word()) for _ in range(50)], True)
    numbers["made-up words refused, of 50"] = sum(x == UNKNOWN for x in given)
    log(f"made-up words: {numbers['made-up words refused, of 50']} of 50 refused")
    return numbers | validate(model, tokenizer, words, log, seed)


@torch.no_grad()
def validate(model, tokenizer, words, log, seed, conversations=200):
    """Loss and draft acceptance on phrasings that were not trained on, in the assistant's part; and what the real choice of
    blocks costs on texts longer than the budget."""
    batches = Batches(tokenizer, Talk(words, seed + 1))
    nll = count = same = drafts = same_anywhere = drafts_anywhere = 0
    with OpenIndexers():
        for _ in range(conversations):
            ids, weights, _ = batches.encode(batches.talk.words_only(1, HELD_OUT))
            ids, said = torch.tensor([ids[:-1]]), torch.tensor(weights[:-1]) == 1.0
            logits, drafted = model(ids)
            losses = F.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="none")[said[1:]]
            nll, count = nll + float(losses.sum()), count + len(losses)
            if drafted is not None:
                agree = drafted[0, :-1].argmax(-1) == logits[0, 1:-1].argmax(-1)
                same, drafts = same + int(agree[said[2:]].sum()), drafts + int(said[2:].sum())
                same_anywhere, drafts_anywhere = same_anywhere + int(agree.sum()), drafts_anywhere + len(agree)
    numbers = {"validation loss, nats a token": round(nll / count, 4)}
    if drafts:
        numbers["first draft accepted"] = round(same / drafts, 4)
        numbers["first draft accepted, questions included"] = round(same_anywhere / drafts_anywhere, 4)
    length = 512
    ids, weights, _ = batches.batch(3, length)
    late = (weights == 1.0)[:, 1:] & (torch.arange(1, length) >= 300)
    for name, run in (("all blocks", OpenIndexers()), ("chosen blocks", None)):
        if run:
            with run:
                logits = model(ids)[0]
        else:
            logits = model(ids)[0]
        loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")[late].mean()
        numbers[f"loss at positions 300 to 511, {name}"] = round(float(loss), 4)
    for key, value in numbers.items():
        log(f"{key}: {value}")
    return numbers


# ---------------------------------------------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the model goes")
    parser.add_argument("--draft-out", type=Path, metavar="DIR",
                        help="train the two-layer draft model instead, with the tokenizer and words of --out")
    parser.add_argument("--no-check", action="store_true", help="export without measuring")
    parser.add_argument("--check", type=Path, metavar="DIR", help="only check an exported model")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), metavar="DIR", help="default %(default)s")
    parser.add_argument("--licence", type=Path, default=Path("/usr/share/doc/wordnet-base/copyright"), metavar="FILE",
                        help="the package's copyright file; default %(default)s")
    parser.add_argument("--words", type=int, default=5000, help="default %(default)s")
    parser.add_argument("--steps", type=int, default=2400, help="default %(default)s")
    parser.add_argument("--indexer-steps", type=int, default=100, help="default %(default)s")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="stop early, with the rates of the whole run, and export")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="default %(default)s")
    parser.add_argument("--work", type=Path, default=Path("/tmp/demo-train"), metavar="DIR", help="saved states; default %(default)s")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="default %(default)s")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from a saved state")
    a = parser.parse_args()
    if not (a.out or a.check):
        parser.error("--out DIR or --check DIR is needed")
    return a


def main():
    a = parse()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    log = lambda text: print(time.strftime("%H:%M:%S"), text, flush=True)
    if a.check:
        check(a.check, log)
        return
    if a.draft_out:
        words = [tuple(line.split("\t")) for line in (a.out / "definitions.tsv").read_text().splitlines()]
        tokenizer = Tokenizer.from_file(str(a.out / "tokenizer.json"))
    else:
        words = read_wordnet(a.wordnet, TOKENIZER_WORDS)
        tokenizer, words = train_tokenizer(words, a.seed), words[:a.words]
    out, config = a.draft_out or a.out, released_config(DRAFT if a.draft_out else DEMO)
    write_texts(out, words, tokenizer, config, wordnet_licence(a.licence))
    model, batches = Model(config), Batches(wrap(tokenizer), Talk(words, a.seed))
    log(f"{len(words)} words, {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    start_well(model)
    train(model, batches, a, log)
    train_indexers(model, batches, a.indexer_steps, log)
    write_weights(out, stored_tensors(model))
    numbers = {} if a.no_check else check(out, log)
    (out / "README.md").write_text((DRAFT_README if a.draft_out else README).format(words=len(words), numbers="Measured on the exported weights:\n\n"
                                                 + "\n".join(f"- {k}: {v}" for k, v in numbers.items())))


if __name__ == "__main__":
    main()
