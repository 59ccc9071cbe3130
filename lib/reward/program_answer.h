#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reward/rules.h"

namespace verlcpp::reward {

/// One line of a reward program (the protocol is in program.h).
struct Answer {
  enum class Kind { kReady, kFatal, kReward, kError };
  Kind kind = Kind::kError;
  int64_t id = -1;
  Reward reward;       // of kReward
  std::string reason;  // of kFatal and kError, with the traceback
};

/// Nothing for a line that is no such object. A result that is no score is an error.
std::optional<Answer> parse_answer(const std::string& line);

/// Bytes for a message: not too many, and none that disturb a terminal.
std::string shown(const std::string& text, size_t limit);

}  // namespace verlcpp::reward
