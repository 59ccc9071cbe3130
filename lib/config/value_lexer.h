#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// The words of a value as Hydra's and OmegaConf's grammars cut them: the longest match counts, and
// white space belongs to the comma, colon, equal sign or bracket beside it.

namespace verlcpp::config {

enum class Dialect {
  kOverride,  // an override's value; a text may hold any character the grammar has no use for
  kResolver,  // arguments of a resolver: interpolations nest, and commas may follow each other
};

enum class TokenType : uint8_t {
  kEnd,
  kParenOpen,
  kParenClose,
  kComma,
  kBracketOpen,
  kBracketClose,
  kBraceOpen,
  kBraceClose,
  kColon,
  kEqual,
  kFloat,
  kInt,
  kBool,
  kNull,
  kCharacter,  // of a text, without a meaning of its own
  kWord,       // a letter or _, then letters, digits, _ and -
  kEscape,     // one or more of \\ \( \) \[ \] \{ \} \: \= \, "\ " and \<tab>
  kSpace,
  kQuoted,
  kInterpolation,
};

struct Token {
  TokenType type = TokenType::kEnd;
  size_t begin = 0, end = 0;
};

/// The token that begins at `at`. Throws GrammarError for a quote or `${` that is never closed.
Token token_at(std::string_view text, size_t at, Dialect dialect);

/// One past the closing quote of the quoted text at `start`, or npos. In `kResolver` an
/// interpolation in it may hold quotes of its own.
size_t end_of_quoted(std::string_view text, size_t start, Dialect dialect);

/// How many characters from `at` on are a number of the command line (1_000, -1e-6, .5, inf), and
/// whether it is an integer; 0 when none is.
size_t number_length(std::string_view text, size_t at, bool& is_integer);

}  // namespace verlcpp::config
