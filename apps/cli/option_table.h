/* cli/option_table.h - every command and every option of the program, once.
 *
 * Path:     [this] -> options.c (command line, environment, settings file), help.c, manual.c,
 *           completion.c
 *
 * A row of CLI_OPTION_MAP: id, long flag, letter or 0, kind, commands it belongs to, aliases,
 * name or choices of its value, smallest and largest number, traits, group, text. Aliases are
 * written as typed, those with one dash included. The environment variable is FLASHNEXT_ and the
 * long flag in capitals. */
#ifndef CLI_OPTION_TABLE_H
#define CLI_OPTION_TABLE_H

/* id, name, what follows it, one line, more for --help and the manual. */
#define CLI_COMMAND_MAP(X)                                                                         \
    X(CHAT, "chat", "[options]", "talk with a model",                                              \
      "With a terminal: a conversation with line editing and history; /help lists its commands. "  \
      "Ctrl-C stops an answer and keeps everything, twice or at an empty prompt it leaves; "       \
      "Ctrl-D "                                                                                    \
      "leaves. With --prompt, --file or a pipe: one question, one answer. The answer goes to "     \
      "standard output, thoughts and figures to standard error.")                                  \
    X(RUN, "run", "[options]", "continue a text as it is, without a chat template",                \
      "The text comes from --prompt, --file, standard input or, as token ids, from --ids-file. "   \
      "Only the continuation is printed, byte for byte; an empty text is a usage error (exit "     \
      "code 2).")                                                                                  \
    X(SERVE, "serve", "[options]", "answer over HTTP: the OpenAI API, and a page to chat in",      \
      "Listens on http://127.0.0.1:8080 unless told otherwise. The page is at /, the API under "   \
      "/v1, figures for Prometheus at /metrics. SIGTERM or Ctrl-C lets running answers end; a "    \
      "second Ctrl-C ends at once. Nothing that clients send is written anywhere.")                \
    X(TOKENIZE, "tokenize", "[options]", "show the tokens of a text or a conversation",            \
      "With --json: reads a JSON array of strings from standard input and prints an array of "     \
      "arrays of ids; with --chat --json: an array of {messages, tools?, kwargs?} becomes an "     \
      "array of {\"prompt\", \"ids\"} or {\"error\"}. Without --json: one text, one token a "      \
      "line; with --chat it is one user's message.")                                               \
    X(INSPECT, "inspect", "[options]", "list files, tensors and sizes of a checkpoint",            \
      "Reads headers only; with --check every byte of a prepared checkpoint.")                     \
    X(PLAN, "plan", "[options]", "say what a model needs and whether it fits",                     \
      "From a checkpoint's headers or from a config.json alone; nothing is loaded.")               \
    X(LOGITS, "logits", "[options]", "write the logits of given ids to a safetensors file",        \
      "--ids-file has a JSON array of arrays of ids [B][T], or one array [T]; the file gets "      \
      "`logits` [B,T,V] in float32 and, with --trace, the values inside the model.")               \
    X(VERIFY, "verify", "[options]", "compare a model with golden values, layer by layer",         \
      "Runs the ids of a golden file through the model, compares every tensor in the order it is " \
      "computed, and names the first value that differs. Integers must be equal; a float passes "  \
      "if |got - want| <= scale * (atol + rtol * |want|). What cannot be checked is listed. Exit " \
      "code 1 when anything differs.")                                                             \
    X(PERPLEXITY, "perplexity", "[options]", "score a text, and compare with a saved run",         \
      "The text (--file, --prompt, standard input, or ids) is read in windows, each from an "      \
      "empty state; every token but a window's first is a prediction. --save-reference keeps "     \
      "the logits of a run, --reference compares with them: KL divergence in nats and the share "  \
      "of predictions with the same likeliest token.")                                             \
    X(BENCH, "bench", "[options]", "measure speed beside what the machine can do at most",         \
      "Reads prompts (pp) and makes tokens one by one (tg), of random ids, behind texts of the "   \
      "given depths, which are read once. Beside each figure stands its share of the limit that "  \
      "was measured just before and after: multiplications for prompts, reading memory for "       \
      "single tokens. A round of more than 103 % says that the limit was disturbed; it is run "    \
      "again, and counted. With --draft, --draft-model or --draft-sim the same text is made "      \
      "plainly and with drafts, in turns, and prompts are read only where -p asks for them.")      \
    X(QUANTIZE, "quantize", "[options]",                                                           \
      "write a checkpoint once in the form that is mapped at start",                               \
      "Quantises and packs a checkpoint into the directory --out, for --model-dir of every other " \
      "command: it opens at once and gives the same bits as quantising while loading. What was "   \
      "stopped or killed goes on when the same command is given again. README and "                \
      "docs/prepared.md say what is in it.")                                                       \
    X(HELP, "help", "[COMMAND]", "explain the program or a command", "")                           \
    X(VERSION, "version", "", "show version, build and CPU", "")                                   \
    X(COMPLETION, "completion", "bash|zsh|fish", "print a completion script for a shell",          \
      "For example: flashnext completion bash > "                                                  \
      "~/.local/share/bash-completion/completions/flashnext")                                      \
    X(MAN, "man", "", "print the manual page", "For example: flashnext man | man -l -")

/* clang-format off */
#define CLI_BIT(command) (1u << CLI_##command)
#define CLI_COMPUTING \
    (CLI_BIT(CHAT) | CLI_BIT(RUN) | CLI_BIT(SERVE) | CLI_BIT(LOGITS) | CLI_BIT(VERIFY) | \
     CLI_BIT(PERPLEXITY) | CLI_BIT(BENCH))
#define CLI_SAMPLING (CLI_BIT(CHAT) | CLI_BIT(RUN))
#define CLI_DRAFTING (CLI_SAMPLING | CLI_BIT(SERVE) | CLI_BIT(BENCH))
#define CLI_WORKING \
    (CLI_COMPUTING | CLI_BIT(TOKENIZE) | CLI_BIT(INSPECT) | CLI_BIT(PLAN) | CLI_BIT(QUANTIZE))

#define CLI_OPTION_MAP(X) \
X(MODEL_DIR, "model-dir", 'm', TEXT, CLI_WORKING, "--model", "DIR", \
  0, 0, CLI_COMMON, "Model", \
  "directory of the checkpoint (default: models/demo in $FLASHNEXT_HOME or here; logits " \
  "and verify have none)") \
X(MODEL_CONFIG, "config", 0, TEXT, CLI_BIT(PLAN), "", "FILE", \
  0, 0, CLI_COMMON | CLI_FILE_ONLY_FLAG, "Model", \
  "a model's config.json instead of a checkpoint: shapes without headers") \
X(TOKENIZER, "tokenizer", 0, TEXT, CLI_SAMPLING | CLI_BIT(SERVE) | CLI_BIT(TOKENIZE) | CLI_BIT(PERPLEXITY), "", "FILE", \
  0, 0, 0, "Model", \
  "tokenizer.json to use instead of the checkpoint's") \
X(TEMPLATE, "chat-template-file", 0, TEXT, CLI_BIT(CHAT) | CLI_BIT(SERVE) | CLI_BIT(TOKENIZE), "", "FILE", \
  0, 0, 0, "Model", \
  "chat template to use instead of the checkpoint's") \
X(TEMPLATE_KWARGS, "chat-template-kwargs", 0, TEXT, CLI_BIT(CHAT) | CLI_BIT(TOKENIZE), "", "JSON", \
  0, 0, 0, "Model", \
  "object of further variables for the chat template") \
X(CONTEXT, "context", 'c', COUNT, CLI_SAMPLING | CLI_BIT(SERVE) | CLI_BIT(PLAN), "--ctx-size", "N", \
  0, 1e12, CLI_COMMON, "Model", \
  "tokens a sequence can hold (0 or not given: the model's maximum)") \
X(PROMPT, "prompt", 'p', TEXT, CLI_SAMPLING | CLI_BIT(TOKENIZE) | CLI_BIT(PERPLEXITY), "", "TEXT", \
  0, 0, CLI_COMMON, "Input", \
  "the text; without it standard input is read when it is not a terminal") \
X(FILE, "file", 'f', TEXT, CLI_SAMPLING | CLI_BIT(TOKENIZE) | CLI_BIT(PERPLEXITY), "", "FILE", \
  0, 0, CLI_COMMON, "Input", \
  "read the text from FILE (- is standard input)") \
X(IDS_FILE, "ids-file", 0, TEXT, CLI_BIT(RUN) | CLI_BIT(LOGITS) | CLI_BIT(PERPLEXITY) | CLI_BIT(BENCH), "", "FILE", \
  0, 0, CLI_COMMON, "Input", \
  "token ids as JSON: [T] or [1][T] for run and perplexity, [T] or [B][T] for logits; bench: " \
  "what stands before, instead of random ids") \
X(SYSTEM, "system", 0, TEXT, CLI_BIT(CHAT) | CLI_BIT(TOKENIZE), "-sys --system-prompt", "TEXT", \
  0, 0, CLI_COMMON, "Input", \
  "system message at the beginning of the conversation") \
X(SYSTEM_FILE, "system-file", 0, TEXT, CLI_BIT(CHAT), "-sysf --system-prompt-file", "FILE", \
  0, 0, 0, "Input", \
  "read the system message from FILE") \
X(SAFE_CONTENT, "safe-content", 0, FLAG, CLI_BIT(CHAT) | CLI_BIT(SERVE) | CLI_BIT(TOKENIZE), "", "", \
  0, 0, CLI_LIVE, "Input", \
  "encode what users wrote without control tokens, whatever it contains") \
X(CHAT_FORM, "chat", 0, FLAG, CLI_BIT(TOKENIZE), "", "", \
  0, 0, CLI_COMMON, "Input", \
  "the input is conversation, not plain text") \
X(NO_SPECIAL, "no-special", 0, FLAG, CLI_BIT(TOKENIZE), "--no-parse-special", "", \
  0, 0, 0, "Input", \
  "read added tokens such as <|im_end|> as plain text") \
X(THINK, "think", 0, CHOICE, CLI_BIT(CHAT), "--reasoning --reasoning-effort", \
  "on|off|low|medium|xhigh", 0, 0, CLI_COMMON, "Thinking", \
  "whether, or how hard, the model thinks before it answers (default: as the template " \
  "says)") \
X(HIDE_THINKING, "hide-thinking", 0, FLAG, CLI_BIT(CHAT), "", "", \
  0, 0, CLI_LIVE, "Thinking", \
  "do not show thoughts") \
X(NEW_TOKENS, "new-tokens", 'n', COUNT, CLI_SAMPLING, "--predict --n-predict --max-tokens", "N", \
  -1, 1e12, CLI_COMMON | CLI_LIVE, "Answer", \
  "most tokens of an answer (0: none; default, or -1: until the model ends or the context is "\
  "full)") \
X(MIN_TOKENS, "min-tokens", 0, COUNT, CLI_BIT(RUN), "", "N", \
  0, 1e12, 0, "Answer", \
  "the end token cannot be chosen before N tokens") \
X(STOP, "stop", 'r', LIST, CLI_SAMPLING, "--reverse-prompt", "TEXT", \
  0, 0, CLI_LIVE, "Answer", \
  "end the answer before TEXT; may be repeated") \
X(IGNORE_EOS, "ignore-eos", 0, FLAG, CLI_BIT(RUN), "", "", \
  0, 0, 0, "Answer", \
  "go on after an end token") \
X(TEMP, "temp", 0, NUMBER, CLI_SAMPLING, "--temperature", "X", \
  0, 1000, CLI_COMMON | CLI_LIVE, "Sampling", \
  "temperature; 0 always takes the likeliest token (default of this group: " \
  "generation_config.json, else greedy)") \
X(TOP_K, "top-k", 0, COUNT, CLI_SAMPLING, "", "N", \
  0, 1e9, CLI_LIVE, "Sampling", \
  "choose among the N likeliest tokens (0: all)") \
X(TOP_P, "top-p", 0, NUMBER, CLI_SAMPLING, "", "X", \
  0, 1, CLI_LIVE, "Sampling", \
  "choose among the likeliest tokens that hold probability X together (1: all; 0: the best alone)") \
X(MIN_P, "min-p", 0, NUMBER, CLI_SAMPLING, "", "X", \
  0, 1, CLI_LIVE, "Sampling", \
  "leave out tokens less likely than X times the likeliest (0: none)") \
X(REPEAT_PENALTY, "repeat-penalty", 0, NUMBER, CLI_SAMPLING, "--repetition-penalty", "X", \
  0.01, 100, CLI_LIVE, "Sampling", \
  "divide the weight of tokens seen in prompt or answer (1: off)") \
X(PRESENCE_PENALTY, "presence-penalty", 0, NUMBER, CLI_SAMPLING, "", "X", \
  -100, 100, CLI_LIVE, "Sampling", \
  "subtract X from tokens the answer has used (0: off)") \
X(FREQUENCY_PENALTY, "frequency-penalty", 0, NUMBER, CLI_SAMPLING, "", "X", \
  -100, 100, CLI_LIVE, "Sampling", \
  "subtract X for each time the answer has used a token (0: off)") \
X(SEED, "seed", 's', SEED, CLI_SAMPLING, "", "N", \
  0, 0, CLI_LIVE, "Sampling", \
  "one seed, one text (default, or -1: a random one, which --stats shows)") \
X(LOGIT_BIAS, "logit-bias", 0, LIST, CLI_SAMPLING, "", "ID=+X", \
  0, 0, CLI_LIVE, "Sampling", \
  "add X to the logit of token ID; may be repeated") \
X(DRAFT, "draft", 0, CHOICE, CLI_DRAFTING, "", "auto|off|mtp|model|lookup", \
  0, 0, CLI_COMMON, "Drafting", \
  "who guesses tokens ahead, for the model to verify several at once; never changes a text " \
  "(default: auto: the draft model if given, else the MTP head if there is one; bench: off)") \
X(DRAFT_MODEL, "draft-model", 0, TEXT, CLI_DRAFTING, "-md --model-draft", "DIR", \
  0, 0, CLI_COMMON, "Drafting", \
  "a smaller model of the same vocabulary that guesses") \
X(DRAFT_TOKENS, "draft-tokens", 0, COUNT, CLI_DRAFTING | CLI_BIT(PLAN), "--draft-max", "N", \
  1, 8, CLI_COMMON, "Drafting", \
  "guesses before each verification, at most (default: 4, or what memory allows); as many as " \
  "pay are made") \
X(DRAFT_FIXED, "draft-fixed", 0, FLAG, CLI_DRAFTING, "", "", \
  0, 0, 0, "Drafting", \
  "always make so many guesses") \
X(DRAFT_LEAST, "draft-least", 0, NUMBER, CLI_DRAFTING, "", "X", \
  0, 1, 0, "Drafting", \
  "stop guessing where all guesses together have a probability below X (default: 0.3)") \
X(DRAFT_VOCAB, "draft-vocab", 0, COUNT, CLI_DRAFTING, "", "N", \
  1, 1e9, 0, "Drafting", \
  "the MTP head guesses among the first N tokens and the special ones (default: 32768)") \
X(DRAFT_SIM, "draft-sim", 0, TEXT, CLI_BIT(BENCH), "", "X,X,...", \
  0, 0, CLI_COMMON, "Drafting", \
  "measure drafting as if the first, second, ... guess held in these shares of the passes") \
X(NO_MTP, "no-mtp", 0, FLAG, CLI_COMPUTING | CLI_BIT(PLAN), "", "", \
  0, 0, 0, "Drafting", \
  "leave out the head that predicts further tokens: less memory, no drafts of its own") \
X(BENCH_PROMPT, "n-prompt", 'p', TEXT, CLI_BIT(BENCH), "", "N,N,...", \
  0, 0, CLI_COMMON, "Runs", \
  "tokens of a prompt that is read at once (0: none; default: 512)") \
X(BENCH_NEW, "n-gen", 'n', TEXT, CLI_BIT(BENCH), "", "N,N,...", \
  0, 0, CLI_COMMON, "Runs", \
  "tokens made one by one (0: none; default: 128)") \
X(DEPTH, "n-depth", 'd', TEXT, CLI_BIT(BENCH), "--depth", "N,N,...", \
  0, 0, CLI_COMMON, "Runs", \
  "tokens that stand before (default: 0)") \
X(BATCH, "batch", 'b', TEXT, CLI_BIT(BENCH), "", "N,N,...", \
  0, 0, CLI_COMMON, "Runs", \
  "sequences that make tokens together, at most 256 (default: 1)") \
X(ROUNDS, "repetitions", 'r', COUNT, CLI_BIT(BENCH), "", "N", \
  1, 1000, CLI_COMMON, "Runs", \
  "rounds of each run (default: 5)") \
X(PROFILE, "profile", 0, FLAG, CLI_BIT(BENCH), "", "", \
  0, 0, CLI_COMMON, "Runs", \
  "also show which parts of the model take how much of the time") \
X(OUTPUT_FORMAT, "output", 'o', CHOICE, CLI_BIT(BENCH), "", "md|json|jsonl|csv", \
  0, 0, CLI_COMMON, "Output", \
  "form of the results; jsonl: a line a run, as soon as it is done (default: md)") \
X(THREADS, "threads", 't', COUNT, CLI_COMPUTING | CLI_BIT(QUANTIZE), "", "N", \
  1, 4096, CLI_COMMON, "Machine", \
  "threads (default: every CPU this process may use)") \
X(ISA, "isa", 0, CHOICE, CLI_COMPUTING, "", "ref|avx2|avx512", \
  0, 0, 0, "Machine", \
  "instruction set (default: the best of this CPU)") \
X(PRECISION, "precision", 0, CHOICE, CLI_COMPUTING, "", "exact|fast", \
  0, 0, 0, "Machine", \
  "exact: activations in float32, weights widened (default of logits and verify); fast: " \
  "INT8 or BF16 dot products, keys and values in BF16 (default of all others)") \
X(CHUNK, "chunk", 0, COUNT, CLI_COMPUTING | CLI_BIT(PLAN), "", "N", \
  1, 1048576, 0, "Machine", \
  "prompt tokens computed together (default: 2048, fewer where memory is short); never " \
  "changes a result") \
X(MEM_LIMIT, "mem-limit", 0, SIZE, CLI_COMPUTING | CLI_BIT(PLAN), "", "SIZE", \
  1, 0, CLI_COMMON, "Machine", \
  "memory that may be used, such as 64GiB (default: what the machine has)") \
X(EXPERT_BITS, "expert-bits", 0, CHOICE, CLI_COMPUTING | CLI_BIT(PLAN) | CLI_BIT(QUANTIZE), "", "16|8|4", \
  0, 0, CLI_COMMON, "Weights", \
  "bits of a routed expert's weight, quantised while loading (default: as stored)") \
X(DENSE_BITS, "dense-bits", 0, CHOICE, CLI_COMPUTING | CLI_BIT(PLAN) | CLI_BIT(QUANTIZE), "", "16|8|4", \
  0, 0, CLI_COMMON, "Weights", \
  "bits of a weight of every other large matrix (default: as stored)") \
X(NGRAM, "ngram", 0, CHOICE, CLI_BIT(QUANTIZE), "", "copy|link|omit|int8", \
  0, 0, CLI_COMMON, "Weights", \
  "the n-gram table: copied (default), read from where it is, left out, or quantised row by row") \
X(GROUP_SIZE, "group-size", 0, CHOICE, CLI_COMPUTING | CLI_BIT(PLAN) | CLI_BIT(QUANTIZE), "", "128|64|32", \
  0, 0, 0, "Weights", \
  "inputs that share a scale at 4 or 8 bits (default: 128)") \
X(NGRAM_MMAP, "ngram-mmap", 0, FLAG, CLI_COMPUTING | CLI_BIT(PLAN), "", "", \
  0, 0, CLI_COMMON, "Weights", \
  "leave the n-gram table on disk and read it by row (default, unless it is below 256 MiB " \
  "and fits)") \
X(NGRAM_RAM, "ngram-ram", 0, FLAG, CLI_COMPUTING | CLI_BIT(PLAN), "", "", \
  0, 0, 0, "Weights", \
  "read the n-gram table into memory at start; never changes a result") \
X(SEQUENCES, "sequences", 0, COUNT, CLI_BIT(PLAN) | CLI_BIT(SERVE), "", "N", \
  1, 65536, CLI_COMMON, "Plan", \
  "sequences in memory at once, at full context (default: 1; serve: what --parallel says, or " \
  "what fits)") \
X(NGRAM_BITS, "ngram-bits", 0, CHOICE, CLI_BIT(PLAN), "", "16|8|4", \
  0, 0, 0, "Plan", \
  "bits of a value of the n-gram table (default: as stored)") \
X(KV_BITS, "kv-bits", 0, CHOICE, CLI_BIT(PLAN), "", "32|16", \
  0, 0, 0, "Plan", \
  "bits of a key's or value's element: 32 in exact precision, 16 in fast (default)") \
X(OUT, "out", 'o', TEXT, CLI_BIT(LOGITS) | CLI_BIT(QUANTIZE), "", "FILE", \
  0, 0, CLI_COMMON, "Forward", \
  "safetensors file to write; of quantize: the directory") \
X(DRY_RUN, "dry-run", 0, FLAG, CLI_BIT(QUANTIZE), "", "", \
  0, 0, CLI_COMMON, "Forward", \
  "show what would be written and how large it is") \
X(CHECK, "check", 0, FLAG, CLI_BIT(INSPECT), "", "", \
  0, 0, CLI_COMMON, "Comparison", \
  "read every byte of a prepared checkpoint and compare it with its checksums") \
X(SPLIT, "split", 0, TEXT, CLI_BIT(LOGITS) | CLI_BIT(VERIFY), "", "N,N,...", \
  0, 0, CLI_COMMON, "Forward", \
  "feed the ids in pieces of these lengths, which must add up; never changes a result") \
X(TRACE, "trace", 0, FLAG, CLI_BIT(LOGITS), "", "", \
  0, 0, CLI_COMMON, "Forward", \
  "also write the values inside the model") \
X(DRAFT_POSITION, "draft-position", 0, COUNT, CLI_BIT(LOGITS), "", "P", \
  0, 1e12, 0, "Forward", \
  "also write the drafts of the MTP head after position P of row 0, with --drafts") \
X(DRAFTS, "drafts", 0, COUNT, CLI_BIT(LOGITS), "", "K", \
  1, 1024, 0, "Forward", \
  "length of that chain of drafts (default: 3)") \
X(TOGETHER, "together", 0, FLAG, CLI_BIT(LOGITS) | CLI_BIT(VERIFY), "", "", \
  0, 0, 0, "Forward", \
  "all rows in one forward instead of one after the other; never changes a result") \
X(GOLDEN, "golden", 0, TEXT, CLI_BIT(VERIFY), "", "FILE", \
  0, 0, CLI_COMMON, "Comparison", \
  "safetensors file with ids and the values they should give") \
X(CASE, "case", 0, TEXT, CLI_BIT(VERIFY), "", "FILE", \
  0, 0, 0, "Comparison", \
  "JSON file with the tolerances (default: case.json beside the golden file)") \
X(ATOL, "atol", 0, NUMBER, CLI_BIT(VERIFY), "", "A", \
  0, 1e30, CLI_COMMON, "Comparison", \
  "absolute tolerance instead of the case's") \
X(RTOL, "rtol", 0, NUMBER, CLI_BIT(VERIFY), "", "R", \
  0, 1e30, CLI_COMMON, "Comparison", \
  "relative tolerance instead of the case's") \
X(SCALE, "scale", 0, NUMBER, CLI_BIT(VERIFY), "", "X", \
  0, 1e30, 0, "Comparison", \
  "multiply both tolerances (default: 1)") \
X(WINDOW, "window", 0, COUNT, CLI_BIT(PERPLEXITY), "", "N", \
  2, 1e12, CLI_COMMON, "Comparison", \
  "tokens read together from an empty state (default: 512)") \
X(BY_DOCUMENT, "by-document", 0, FLAG, CLI_BIT(PERPLEXITY), "", "", \
  0, 0, 0, "Comparison", \
  "begin a window behind each end-of-text token (<|endoftext|>): every document from its own start") \
X(SAVE_REFERENCE, "save-reference", 0, TEXT, CLI_BIT(PERPLEXITY), "", "FILE", \
  0, 0, CLI_COMMON, "Comparison", \
  "keep this run's logits (4 bytes for each prediction and token of the vocabulary)") \
X(REFERENCE, "reference", 0, TEXT, CLI_BIT(PERPLEXITY), "", "FILE", \
  0, 0, CLI_COMMON, "Comparison", \
  "compare with a run that --save-reference kept, of the same text and window") \
X(HOST, "host", 0, TEXT, CLI_BIT(SERVE), "", "NAME", \
  0, 0, CLI_COMMON, "Server", \
  "address to listen on (default: 127.0.0.1); any but loopback wants --api-key") \
X(PORT, "port", 0, COUNT, CLI_BIT(SERVE), "", "N", \
  0, 65535, CLI_COMMON, "Server", \
  "port to listen on (default: 8080; 0: any free one)") \
X(API_KEY, "api-key", 0, LIST, CLI_BIT(SERVE), "", "KEY", \
  0, 0, CLI_COMMON, "Server", \
  "what clients must send; may be repeated. Other users of the machine can read it here: " \
  "FLASHNEXT_API_KEY or --api-key-file is better") \
X(API_KEY_FILE, "api-key-file", 0, TEXT, CLI_BIT(SERVE), "", "FILE", \
  0, 0, 0, "Server", \
  "keys, one a line") \
X(INSECURE, "insecure", 0, FLAG, CLI_BIT(SERVE), "", "", \
  0, 0, 0, "Server", \
  "listen on any address without a key") \
X(MODEL_NAME, "model-name", 0, TEXT, CLI_BIT(SERVE), "-a --alias --served-model-name", "NAME", \
  0, 0, 0, "Server", \
  "what clients call the model (default: its directory's name)") \
X(PARALLEL, "parallel", 0, COUNT, CLI_BIT(SERVE), "-np", "N", \
  1, 128, CLI_COMMON, "Server", \
  "answers computed together, at most half of --chunk and of --context (default: 16, or what " \
  "these allow); never changes an answer") \
X(MAX_QUEUE, "max-queue", 0, COUNT, CLI_BIT(SERVE), "", "N", \
  1, 1e6, 0, "Server", \
  "requests that may wait; one more is told to come again, status 429 (default: 64)") \
X(CACHE_SIZE, "cache-size", 0, SIZE, CLI_BIT(SERVE), "", "SIZE", \
  0, 0, CLI_COMMON, "Server", \
  "memory of the prefix cache (default: 1GiB or what fits; 0: none)") \
X(CACHE_DIR, "cache-dir", 0, TEXT, CLI_BIT(SERVE), "", "DIR", \
  0, 0, 0, "Server", \
  "keep the prefix cache in files too: it survives restarts") \
X(CACHE_DIR_SIZE, "cache-dir-size", 0, SIZE, CLI_BIT(SERVE), "", "SIZE", \
  1, 0, 0, "Server", \
  "most bytes of those files (default: 8 times --cache-size)") \
X(CORS_ORIGIN, "cors-origin", 0, LIST, CLI_BIT(SERVE), "", "ORIGIN", \
  0, 0, 0, "Server", \
  "web site whose pages may use this server, such as https://example.org, or *; may be " \
  "repeated (default: none)") \
X(TLS_CERT, "tls-cert", 0, TEXT, CLI_BIT(SERVE), "--ssl-cert-file --ssl-certfile", "FILE", \
  0, 0, 0, "Server", \
  "certificate chain (PEM) for HTTPS") \
X(TLS_KEY, "tls-key", 0, TEXT, CLI_BIT(SERVE), "--ssl-key-file --ssl-keyfile", "FILE", \
  0, 0, 0, "Server", \
  "its private key (PEM)") \
X(MAX_BODY, "max-body", 0, SIZE, CLI_BIT(SERVE), "", "SIZE", \
  1, 0, 0, "Server", \
  "longest request (default: 64MiB)") \
X(MAX_CONNECTIONS, "max-connections", 0, COUNT, CLI_BIT(SERVE), "", "N", \
  1, 1e6, 0, "Server", \
  "connections at once; more wait (default: 512)") \
X(DRAIN, "drain", 0, NUMBER, CLI_BIT(SERVE), "", "X", \
  0, 1e9, 0, "Server", \
  "seconds that running answers have to end after SIGTERM (default: 30)") \
X(PING, "ping", 0, NUMBER, CLI_BIT(SERVE), "", "X", \
  0.1, 1e9, 0, "Server", \
  "seconds after which a silent stream gets a comment, so that nobody gives up (default: 8)") \
X(LOG_FORMAT, "log-format", 0, CHOICE, CLI_BIT(SERVE), "", "text|json", \
  0, 0, 0, "Server", \
  "one line for each request on standard error (default: text; none with --quiet)") \
X(JSON, "json", 0, FLAG, CLI_WORKING & ~(CLI_BIT(CHAT) | CLI_BIT(SERVE) | CLI_BIT(LOGITS) | CLI_BIT(BENCH)), "", "", \
  0, 0, CLI_COMMON, "Output", \
  "print one JSON value for programs to read") \
X(IDS, "ids", 0, FLAG, CLI_BIT(TOKENIZE), "", "", \
  0, 0, CLI_COMMON, "Output", \
  "print the ids only, as a JSON array") \
X(LOGPROBS, "logprobs", 0, COUNT, CLI_BIT(RUN), "", "K", \
  1, 1000, 0, "Output", \
  "log-probabilities of each chosen token and the K likeliest, within --json or in " \
  "--logprobs-out") \
X(LOGPROBS_OUT, "logprobs-out", 0, TEXT, CLI_BIT(RUN), "", "FILE", \
  0, 0, 0, "Output", \
  "write them to FILE, one JSON object a line") \
X(STATS, "stats", 0, FLAG, CLI_SAMPLING, "--show-timings", "", \
  0, 0, CLI_LIVE, "Output", \
  "show speed at the end on standard error (default: when that is a terminal)") \
X(COLOR, "color", 0, CHOICE, CLI_BIT(CHAT) | CLI_BIT(VERIFY), "--colors", "auto|on|off", \
  0, 0, 0, "Output", \
  "colours (default: auto, which obeys NO_COLOR)") \
X(NO_PROGRESS, "no-progress", 0, FLAG, CLI_COMPUTING | CLI_BIT(QUANTIZE) | CLI_BIT(INSPECT), "", "", \
  0, 0, 0, "Output", \
  "no progress bars") \
X(QUIET, "quiet", 'q', FLAG, CLI_COMPUTING | CLI_BIT(QUANTIZE) | CLI_BIT(INSPECT), "", "", \
  0, 0, 0, "Output", \
  "no progress bars, figures or greeting") \
X(VERBOSE, "verbose", 'v', FLAG, CLI_COMPUTING, "", "", \
  0, 0, 0, "Output", \
  "say on standard error what was loaded and how") \
X(SETTINGS, "config", 0, TEXT, CLI_WORKING & ~CLI_BIT(PLAN), "", "FILE", \
  0, 0, CLI_NOT_IN_FILE, "General", \
  "settings file (default: $XDG_CONFIG_HOME/flashnext/config.ini)")
/* clang-format on */

#endif
