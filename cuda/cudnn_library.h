#pragma once

#include <string>

namespace verlcpp::cuda {

/// cuDNN of this process, opened at the first call: dlopen's handle. DeviceError when it is missing
/// or too old; one line in the log when it is usable but not the best.
void* open_cudnn();

/// "9.19.0", of the opened library.
std::string cudnn_version();

}  // namespace verlcpp::cuda
