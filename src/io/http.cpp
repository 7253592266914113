// libcurl is loaded when the first download begins. Linked, it would bring every program of
// Facula's users twenty more libraries (TLS, LDAP, Kerberos, SSH, ...), which the loader needs
// longer for than for everything else together. Its functions and constants are declared here,
// which spares its headers in the build: they are the ABI of libcurl.so.4, in force since 2006.
#include "io/http.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <span>

#include <fmt/format.h>

#include <facula/version.h>

#include "base/check.h"

namespace facula::io {
namespace {

enum Option : int {
  kUrl = 10002,
  kWriteData = 10001,
  kErrorBuffer = 10010,
  kUserAgent = 10018,
  kAuthoritiesFile = 10065,
  kAuthoritiesFolder = 10097,
  kNoProgress = 43,
  kFailOnError = 45,
  kFollowLocation = 52,
  kMaxRedirections = 68,
  kConnectTimeout = 78,
  kNoSignal = 99,
  kProtocols = 181,
  kRedirectionProtocols = 182,
  kProgressData = 10057,
  kWriteFunction = 20011,
  kProgressFunction = 20219,  // since 2013
  kResumeFrom = 30116,
};
constexpr int kResponseCode = 0x200002, kHeaderSize = 0x20000B;
constexpr int kConnectTime = 0x300005, kPretransferTime = 0x300006;
constexpr long kHttpAndHttps = 3;
constexpr size_t kErrorSize = 256;
constexpr long kGlobalAll = 3;

enum Code : int {
  kOk = 0,
  kCouldNotResolveHost = 6,
  kCouldNotConnect = 7,
  kHttp2Error = 16,
  kPartialFile = 18,
  kHttpError = 22,
  kTimedOut = 28,
  kRangeError = 33,
  kTlsHandshakeError = 35,
  kNothing = 52,
  kSendError = 55,
  kReceiveError = 56,
  kUntrustedCertificate = 60,
  kUnreadableAuthorities = 77,
  kHttp2StreamError = 92,
  kHttp3Error = 95,
  kQuicConnectError = 96,
};

struct Curl {
  int (*global_init)(long flags);
  void* (*init)();
  int (*set)(void* transfer, int option, ...);
  int (*perform)(void* transfer);
  int (*get)(void* transfer, int info, ...);
  void (*cleanup)(void* transfer);
  const char* (*text_of)(int code);
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  check<IoError>(function != nullptr, "download: libcurl.so.4 lacks {}; install Debian's libcurl4",
                 name);
}

const Curl& curl() {
  static const Curl loaded = [] {
    void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = ::dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    check<IoError>(library != nullptr,
                   "download: libcurl is not there ({}); install the package libcurl4, or get the "
                   "file in another way and give its path",
                   ::dlerror());
    Curl functions;
    find(library, "curl_global_init", functions.global_init);
    find(library, "curl_easy_init", functions.init);
    find(library, "curl_easy_setopt", functions.set);
    find(library, "curl_easy_perform", functions.perform);
    find(library, "curl_easy_getinfo", functions.get);
    find(library, "curl_easy_cleanup", functions.cleanup);
    find(library, "curl_easy_strerror", functions.text_of);
    check<IoError>(functions.global_init(kGlobalAll) == kOk,
                   "download: libcurl cannot be initialised; check its installation");
    return functions;
  }();
  return loaded;
}

/// Where the body goes, and what went wrong there: exceptions must not pass through libcurl.
struct Sink {
  const FileDescriptor& file;
  const std::string& path;
  std::exception_ptr error;
};

size_t receive(char* bytes, size_t size, size_t count, void* context) {
  auto& sink = *static_cast<Sink*>(context);
  try {
    write_all(sink.file.get(), {reinterpret_cast<const uint8_t*>(bytes), size * count}, sink.path);
    return size * count;
  } catch (...) {
    sink.error = std::current_exception();
    return 0;
  }
}

/// Ends a transfer in which nothing comes for a while. libcurl's own limit is on an average over
/// its last seconds, which ends seconds later.
struct Watch {
  using Clock = std::chrono::steady_clock;

  /// What has come so far: connections, too, as the time for them is limited elsewhere.
  struct Signs {
    double connected = 0, sent = 0;
    long header_bytes = 0;
    std::int64_t bytes = 0;
    bool operator==(const Signs&) const = default;
  };

  const Curl& curl;
  void* handle;
  std::chrono::duration<double> limit;
  Clock::time_point last = Clock::now();
  Signs seen = {};
  bool silent = false;
};

/// libcurl calls it once a second, and when something comes.
int watch_progress(void* context, std::int64_t, std::int64_t bytes, std::int64_t, std::int64_t) {
  auto& watch = *static_cast<Watch*>(context);
  Watch::Signs now{.bytes = bytes};
  watch.curl.get(watch.handle, kConnectTime, &now.connected);
  watch.curl.get(watch.handle, kPretransferTime, &now.sent);
  watch.curl.get(watch.handle, kHeaderSize, &now.header_bytes);
  const auto time = Watch::Clock::now();
  if (now == watch.seen) {
    watch.silent = time - watch.last >= watch.limit;
    return watch.silent ? 1 : 0;
  }
  watch.seen = now;
  watch.last = time;
  return 0;
}

bool is_worth_retrying(int code, long status) {
  constexpr long kTooManyRequests = 429, kServerError = 500;
  switch (code) {
    case kCouldNotResolveHost:
    case kCouldNotConnect:
    case kHttp2Error:
    case kPartialFile:
    case kTimedOut:
    case kTlsHandshakeError:
    case kNothing:
    case kSendError:
    case kReceiveError:
    case kHttp2StreamError:
    case kHttp3Error:
    case kQuicConnectError: return true;
    case kHttpError: return status >= kServerError || status == kTooManyRequests;
    default: return false;
  }
}

const char* remedy_for(int code) {
  switch (code) {
    case kUntrustedCertificate:
      return "check the address and this machine's clock; if you trust whoever signed the server's "
             "certificate, such as your company's proxy, name the file of its certificate in "
             "SSL_CERT_FILE";
    case kUnreadableAuthorities:
      return "install the package ca-certificates, or name a file of the certificates that you "
             "trust in SSL_CERT_FILE";
    default:
      return "check the address and the network, or get the file in another way and give its path";
  }
}

/// Takes the variables that the program curl takes; libcurl ignores them.
void choose_authorities(const Curl& library, void* handle) {
  const auto use = [&](const char* variable, Option option) {
    const char* path = std::getenv(variable);
    const bool given = path && *path;
    if (given) library.set(handle, option, path);
    return given;
  };
  if (use("CURL_CA_BUNDLE", kAuthoritiesFile)) return;
  use("SSL_CERT_FILE", kAuthoritiesFile);
  use("SSL_CERT_DIR", kAuthoritiesFolder);
}

}  // namespace

HttpResult http_fetch(const std::string& url, const FileDescriptor& file, uint64_t offset,
                      int64_t timeout, const std::string& path) {
  const Curl& library = curl();
  struct Transfer {
    const Curl& library;
    void* handle;
    ~Transfer() { library.cleanup(handle); }
  } transfer{library, library.init()};
  check<IoError>(transfer.handle != nullptr, "download: libcurl has no memory left; free some");
  void* const handle = transfer.handle;

  Sink sink{file, path, {}};
  Watch watch{library, handle, std::chrono::duration<double>(timeout)};
  std::array<char, kErrorSize> message{};
  const std::string agent = std::string("facula/") + kVersion;
  const auto seconds = static_cast<long>(timeout);
  library.set(handle, kUrl, url.c_str());
  library.set(handle, kUserAgent, agent.c_str());
  library.set(handle, kProtocols, kHttpAndHttps);
  library.set(handle, kRedirectionProtocols, kHttpAndHttps);
  library.set(handle, kFollowLocation, 1L);
  library.set(handle, kMaxRedirections, 10L);
  library.set(handle, kConnectTimeout, seconds);
  library.set(handle, kNoProgress, 0L);
  library.set(handle, kProgressFunction, watch_progress);
  library.set(handle, kProgressData, static_cast<void*>(&watch));
  library.set(handle, kFailOnError, 1L);
  library.set(handle, kNoSignal, 1L);
  library.set(handle, kErrorBuffer, message.data());
  library.set(handle, kWriteFunction, receive);
  library.set(handle, kWriteData, static_cast<void*>(&sink));
  library.set(handle, kResumeFrom, static_cast<int64_t>(offset));
  choose_authorities(library, handle);

  int code = library.perform(handle);
  if (sink.error) std::rethrow_exception(sink.error);
  if (watch.silent) code = kTimedOut;
  long status = 0;
  library.get(handle, kResponseCode, &status);
  constexpr long kWhole = 200, kWholeByProxy = 203, kPart = 206, kRangeNotSatisfiable = 416;
  const bool whole = status == kWhole || status == kWholeByProxy;
  HttpResult result;
  // libcurl takes a whole file of `offset` bytes for the one that is there, and leaves it out.
  result.cannot_resume = offset > 0 && (code == kRangeError || status == kRangeNotSatisfiable ||
                                        (code == kOk && whole));
  // What comes with others, such as "not modified" or "accepted", is not the file.
  const bool expected = offset > 0 ? status == kPart : whole;
  result.complete = code == kOk && expected;
  result.worth_retrying = is_worth_retrying(code, status);
  if (!result.complete) {
    if (code == kOk && ::ftruncate(file.get(), static_cast<off_t>(offset)) != 0) {
      fail_system("truncate", path, errno);
    }
    result.error = watch.silent  ? fmt::format("nothing came for {} s", timeout)
                   : code == kOk ? fmt::format("the server answered with status {}", status)
                   : message[0]  ? message.data()
                                 : library.text_of(code);
    result.remedy = remedy_for(code);
  }
  return result;
}

}  // namespace facula::io
