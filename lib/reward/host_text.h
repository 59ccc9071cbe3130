#pragma once

namespace verlcpp::reward {

/// The text of compute_score_host.py, compiled in.
const char* compute_score_host();

}  // namespace verlcpp::reward
