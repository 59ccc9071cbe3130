#pragma once

#include <nccl.h>

#include "cuda/library.h"

namespace verlcpp::cuda {

/// The functions used of NCCL, opened at run time.
struct NcclLibrary {
  NcclLibrary();

#define VERLCPP_NCCL(member, name) decltype(name)* member = library.function<decltype(name)>(#name)
  Library library{"several GPUs", {"libnccl.so.2"}};
  VERLCPP_NCCL(get_version, ncclGetVersion);
  VERLCPP_NCCL(get_unique_id, ncclGetUniqueId);
  VERLCPP_NCCL(init_rank, ncclCommInitRankConfig);
  VERLCPP_NCCL(split, ncclCommSplit);
  VERLCPP_NCCL(finalize, ncclCommFinalize);
  VERLCPP_NCCL(destroy, ncclCommDestroy);
  VERLCPP_NCCL(abort, ncclCommAbort);
  VERLCPP_NCCL(async_error, ncclCommGetAsyncError);
  VERLCPP_NCCL(error_string, ncclGetErrorString);
  VERLCPP_NCCL(last_error, ncclGetLastError);
  VERLCPP_NCCL(all_reduce, ncclAllReduce);
  VERLCPP_NCCL(reduce_scatter, ncclReduceScatter);
  VERLCPP_NCCL(all_gather, ncclAllGather);
  VERLCPP_NCCL(broadcast, ncclBroadcast);
  VERLCPP_NCCL(send, ncclSend);
  VERLCPP_NCCL(receive, ncclRecv);
  VERLCPP_NCCL(group_start, ncclGroupStart);
  VERLCPP_NCCL(group_end, ncclGroupEnd);
#undef VERLCPP_NCCL
};

/// One for the process. DeviceError when it is missing or too old.
const NcclLibrary& nccl();

}  // namespace verlcpp::cuda
