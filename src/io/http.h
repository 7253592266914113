// Fetching a file over HTTP.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"

namespace facula::io {

struct HttpResult {
  bool complete = false;
  /// Whether another attempt may succeed: the connection broke, or the server was busy.
  bool worth_retrying = false;
  /// Whether the server has nothing after `offset`, or would have to send the file from its
  /// beginning.
  bool cannot_resume = false;
  std::string error;   ///< empty if complete
  std::string remedy;  ///< what to do about it
};

/// Appends to `file`, whose first `offset` bytes are there, what follows them in the file at `url`
/// (http or https, redirections followed). What has arrived stays also where the transfer fails.
/// Gives up after `timeout` seconds without a connection or a byte. Certificates are checked
/// against the system's authorities, or those in CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR.
/// Throws IoError if the file cannot be written, or if libcurl is not installed.
HttpResult http_fetch(const std::string& url, const FileDescriptor& file, uint64_t offset,
                      int64_t timeout, const std::string& path);

}  // namespace facula::io
