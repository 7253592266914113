#!/usr/bin/env python3
"""Downloads through `facula hub download` from a server that misbehaves in every way.

FACULA_BIN_DIR says where the program is. Exits with 77 where libcurl is not installed.
"""

import ctypes
import hashlib
import http.server
import os
import pathlib
import random
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = os.path.join(os.environ['FACULA_BIN_DIR'], 'facula')
CONTENT = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the path says how. Requests are noted as (path, Range)."""

    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, wanted = self.path.split('?')[0], self.headers.get('Range')
        with self.server.lock:
            self.server.requests.append((path, wanted))
            attempt = sum(1 for seen, _ in self.server.requests if seen == path)
        if path == '/missing':
            return self.send_error(404)
        if path == '/busy' and attempt == 1:
            return self.send_error(503)
        if path == '/redirect':
            return self.reply(302, b'', Location='/whole')
        if path.startswith('/status/'):
            return self.reply(int(path.removeprefix('/status/')), b'')
        if path == '/by-proxy':
            return self.reply(203, CONTENT)
        if path == '/to-file':
            return self.reply(302, b'', Location='file:///etc/passwd')
        if path == '/hang':
            self.server.release.wait(20)
            return None
        if path == '/slow':
            time.sleep(0.5)
        offset = 0
        if wanted and path not in ('/no-range', '/always-anew'):
            offset = int(wanted.removeprefix('bytes=').removesuffix('-'))
            if offset >= len(CONTENT):
                return self.reply(416, b'')
        body = CONTENT[offset:]
        # Breaks off in the middle, again and again.
        cut = None
        if path == '/changing' and attempt == 1:
            return self.reply(200, bytes(len(CONTENT)), 100_000)
        if path in ('/cut', '/no-range') and attempt <= 2 or path in ('/never', '/always-anew'):
            cut = 100_000
        if path == '/stall':
            self.reply(200, body, 1000)
            self.server.release.wait(20)
            return None
        headers = {}
        if offset:
            headers['Content-Range'] = f'bytes {offset}-{len(CONTENT) - 1}/{len(CONTENT)}'
        if path == '/never' and attempt > 1:
            cut = 0
        return self.reply(206 if offset else 200, body, cut, **headers)

    def reply(self, status, body, cut=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tls=None):
        super().__init__(('127.0.0.1', 0), Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.lock, self.release = threading.Lock(), threading.Event()
        self.requests = []

    def handle_error(self, request, client_address):
        pass  # clients that are killed or give up


class HubTestCase(unittest.TestCase):
    scheme = 'http'

    @classmethod
    def make_server(cls):
        return Server()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.release.set()
        cls.server.shutdown()

    def setUp(self):
        self.server.requests = []
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name)
        self.files = self.home / 'hub/files'

    def url(self, name, host='127.0.0.1'):
        return f'{self.scheme}://{host}:{self.server.server_port}/{name}'

    def environment(self, **more):
        return {**os.environ, 'FACULA_HOME': str(self.home), 'no_proxy': '127.0.0.1,localhost', **more}

    def run_hub(self, *arguments, **environment):
        return subprocess.run([PROGRAM, 'hub', 'download', *map(str, arguments)], text=True,
                              capture_output=True, timeout=120, check=False,
                              env=self.environment(**environment))

    def expect_file(self, *arguments, **environment):
        done = self.run_hub(*arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = pathlib.Path(done.stdout.strip())
        self.assertEqual(path.read_bytes(), CONTENT)
        self.assertEqual(list((self.home / 'hub/partial').glob('*')), [])
        return path

    def expect_error(self, parts, *arguments, status=1, **environment):
        done = self.run_hub(*arguments, **environment)
        self.assertEqual(done.returncode, status, done.stdout)
        for part in parts:
            self.assertIn(part, done.stderr)


class HubTest(HubTestCase):
    def partial(self, name):
        return self.home / 'hub/partial' / hashlib.sha256(self.url(name).encode()).hexdigest()

    def leave_partial(self, name, content):
        self.partial(name).parent.mkdir(parents=True)
        self.partial(name).write_bytes(content)

    def test_kept_by_content_and_used_offline(self):
        path = self.expect_file(self.url('whole'), '--sha256', SHA256)
        self.assertEqual(path, self.files / SHA256)
        self.expect_file(self.url('whole'), '--sha256', SHA256.upper(), FACULA_OFFLINE='1')
        self.expect_file(self.url('whole'), '--sha256', SHA256[:8], FACULA_OFFLINE='1')
        self.expect_file(self.url('another'), '--sha256', SHA256, FACULA_OFFLINE='1')
        self.assertEqual(len(self.server.requests), 1)

    def test_offline(self):
        self.expect_error(['not in the cache', str(self.files / SHA256), 'allow downloads'],
                          self.url('whole'), '--sha256', SHA256, FACULA_OFFLINE='1')
        self.assertEqual(self.server.requests, [])
        self.files.mkdir(parents=True)
        (self.files / SHA256).write_bytes(CONTENT)
        self.expect_file(self.url('whole'), '--sha256', SHA256, FACULA_OFFLINE='1')

    def test_without_checksum_the_first_download_counts(self):
        self.expect_file(self.url('whole'))
        self.expect_file(self.url('whole'), FACULA_OFFLINE='1')
        (self.files / SHA256).write_bytes(b'tampered')
        self.expect_error(['not in the cache', f'put it there as {self.files / SHA256}'],
                          self.url('whole'), FACULA_OFFLINE='1')
        self.expect_file(self.url('whole'))

    def test_checksum_in_the_name(self):
        self.expect_file(self.url(f'net-{SHA256[:8]}.pth'))
        self.expect_error(['expected 0000000f...', SHA256, 'give that SHA-256'],
                          self.url('net-0000000f.pth'))
        self.expect_file(self.url('net-0000000f.pth'), '--sha256', SHA256)
        self.expect_file(self.url('net-20240115.pth'))

    def test_wrong_checksum(self):
        wrong = '0' * 64
        self.expect_error([SHA256, wrong, 'not the file that is meant'], self.url('whole'),
                          '--sha256', wrong)
        self.assertEqual(list(self.files.glob('*')), [])
        self.assertFalse(self.partial('whole').exists())

    def test_interrupted_transfers_go_on(self):
        self.expect_file(self.url('cut'), '--sha256', SHA256)
        self.assertEqual([wanted for _, wanted in self.server.requests],
                         [None, 'bytes=100000-', 'bytes=200000-'])

    def test_another_process_goes_on(self):
        self.expect_error(['100000 bytes that have arrived are kept'], self.url('never'),
                          '--sha256', SHA256)
        self.assertEqual(self.partial('never').read_bytes(), CONTENT[:100_000])
        self.partial('never').rename(self.partial('whole'))
        self.expect_file(self.url('whole'), '--sha256', SHA256)
        self.assertEqual(self.server.requests[-1], ('/whole', 'bytes=100000-'))

    def test_a_file_that_changes_between_two_attempts(self):
        self.expect_file(self.url('changing'))
        self.assertEqual([wanted for _, wanted in self.server.requests], [None, None])
        self.server.requests.clear()
        (self.files / SHA256).unlink()
        self.expect_file(self.url('changing?'), '--sha256', SHA256)
        self.assertEqual([wanted for _, wanted in self.server.requests],
                         [None, 'bytes=100000-', None])

    def test_without_checksum_nothing_is_kept(self):
        done = self.run_hub(self.url('never'))
        self.assertEqual(done.returncode, 1)
        self.assertNotIn('are kept', done.stderr)
        self.assertFalse(self.partial('never').exists())

    def test_a_file_that_cannot_be_written(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        self.expect_error(['cannot write'], self.url('whole'))
        self.assertEqual(list((self.home / 'hub/partial').glob('*')), [])
        self.expect_error(['cannot write'], self.url('whole'), '--sha256', SHA256)
        self.assertEqual(self.partial('whole').read_bytes(), CONTENT[:50_000])

    def test_server_without_ranges(self):
        self.leave_partial('no-range', CONTENT[:5000])
        self.expect_file(self.url('no-range'), '--sha256', SHA256)

    def test_complete_partial_file(self):
        for name in 'whole', 'no-range':
            self.server.requests.clear()
            self.leave_partial(name, CONTENT)
            self.expect_file(self.url(name), '--sha256', SHA256[:8])
            self.assertEqual(self.server.requests, [(f'/{name}', f'bytes={len(CONTENT)}-')])
            shutil.rmtree(self.home / 'hub')

    def test_partial_file_as_long_as_the_whole(self):
        for name in 'whole', 'no-range':
            self.server.requests.clear()
            self.leave_partial(name, bytes(len(CONTENT)))
            # Requests for /no-range break off at first.
            self.server.requests = [(f'/{name}', None)] * 2
            self.expect_file(self.url(name), '--sha256', SHA256)
            self.assertEqual([wanted for _, wanted in self.server.requests[2:]],
                             [f'bytes={len(CONTENT)}-', None])
            shutil.rmtree(self.home / 'hub')

    def test_server_without_ranges_that_always_breaks_off(self):
        self.expect_error(['cannot download', 'always-anew', 'check the address and the network'],
                          self.url('always-anew'), '--sha256', SHA256)
        self.assertEqual([wanted for _, wanted in self.server.requests],
                         [None, 'bytes=100000-'] * 3 + [None])

    def test_corrupted_partial_file(self):
        self.leave_partial('whole', b'x' * 1000)
        self.expect_file(self.url('whole'), '--sha256', SHA256)
        self.assertEqual([wanted for _, wanted in self.server.requests], ['bytes=1000-', None])

    def test_partial_file_that_is_too_long(self):
        self.leave_partial('whole', CONTENT + b'more')
        self.expect_file(self.url('whole'), '--sha256', SHA256)

    def test_partial_file_of_unknown_content_is_not_trusted(self):
        self.leave_partial('whole', b'x' * 1000)
        self.expect_file(self.url('whole'))

    def test_damaged_cache(self):
        self.files.mkdir(parents=True)
        (self.files / SHA256).write_bytes(CONTENT[:-1])
        self.expect_file(self.url('whole'), '--sha256', SHA256)

    def test_redirect(self):
        self.expect_file(self.url('redirect'), '--sha256', SHA256)
        self.expect_error(['to-file'], self.url('to-file'))

    def test_server_errors(self):
        self.expect_error(['missing', '404', 'check the address'], self.url('missing'))
        self.assertEqual(len(self.server.requests), 1)
        self.assertEqual(list((self.home / 'hub/partial').glob('*')), [])
        self.expect_file(self.url('busy'), '--sha256', SHA256)

    def test_answers_without_the_file(self):
        for status in '202', '206', '300':
            self.expect_error([f'the server answered with status {status}'],
                              self.url(f'status/{status}'))
        self.assertEqual(len(self.server.requests), 3)
        self.assertEqual(list((self.home / 'hub/partial').glob('*')), [])

    def test_answers_of_a_proxy(self):
        self.expect_file(self.url('by-proxy'))
        for content in CONTENT[:5000], CONTENT:
            shutil.rmtree(self.home / 'hub')
            self.leave_partial('by-proxy', content)
            self.expect_file(self.url('by-proxy'), '--sha256', SHA256)

    def test_a_server_that_hangs(self):
        self.expect_error(['hang', 'nothing came for 1 s'], self.url('hang'), '--timeout', 1)
        self.assertEqual(len(self.server.requests), 3)

    def test_a_server_that_stalls(self):
        begin = time.monotonic()
        self.expect_error(['stall', 'nothing came for 1 s'], self.url('stall'), '--timeout', 1)
        self.assertEqual(len(self.server.requests), 4)
        self.assertLess(time.monotonic() - begin, 16)  # two seconds an attempt, and as many to spare

    def test_nobody_there(self):
        self.expect_error(['cannot download http://127.0.0.1:9/x'], 'http://127.0.0.1:9/x')

    def test_other_addresses(self):
        self.expect_error(['ftp://x/y', 'http://'], 'ftp://x/y')
        self.expect_error(['8 to 64'], self.url('whole'), '--sha256', 'short')
        local = self.home / 'here'
        local.write_bytes(CONTENT)
        for source in (local, f'file://{local}'):
            done = self.run_hub(source, '--sha256', SHA256, FACULA_OFFLINE='1')
            self.assertEqual(done.stdout.strip(), str(local), done.stderr)
        self.expect_error([SHA256, 'not the file'], local, '--sha256', '0' * 64)
        self.expect_error(['no file'], self.home / 'absent')

    def test_many_processes(self):
        command = [PROGRAM, 'hub', 'download', self.url('slow'), '--sha256', SHA256]
        crew = [subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE)
                for _ in range(6)]
        for process in crew:
            path = process.communicate(timeout=60)[0].decode().strip()
            self.assertEqual(process.returncode, 0)
            self.assertEqual(pathlib.Path(path).read_bytes(), CONTENT)
        self.assertEqual(len(self.server.requests), 1)

    def test_a_killed_process_harms_nobody(self):
        process = subprocess.Popen([PROGRAM, 'hub', 'download', self.url('hang')],
                                   env=self.environment())
        deadline = time.monotonic() + 30
        while not self.server.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
        self.partial('hang').rename(self.partial('whole'))
        self.expect_file(self.url('whole'), '--sha256', SHA256)


@unittest.skipUnless(shutil.which('openssl'), 'the program openssl is absent')
class HttpsTest(HubTestCase):
    """A server whose certificate is for 127.0.0.1 and signed by an authority of its own."""

    scheme = 'https'

    @classmethod
    def make_server(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)

        def openssl(*arguments):
            return subprocess.run(['openssl', *arguments], cwd=folder, check=True, text=True,
                                  capture_output=True).stdout.strip()

        key = ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes')
        openssl('req', '-x509', *key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Test CA')
        openssl('req', *key, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=server')
        (folder / 'names').write_text('subjectAltName=IP:127.0.0.1')
        openssl('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key',
                '-CAcreateserial', '-extfile', 'names', '-out', 'server.pem')
        cls.authority = folder / 'ca.pem'
        # A folder of authorities has their files by hash.
        cls.authorities = folder / 'authorities'
        cls.authorities.mkdir()
        name = openssl('x509', '-in', 'ca.pem', '-noout', '-hash')
        shutil.copy(cls.authority, cls.authorities / f'{name}.0')
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / 'server.pem', folder / 'server.key')
        cls.http2 = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        cls.http2.load_cert_chain(folder / 'server.pem', folder / 'server.key')
        cls.http2.set_alpn_protocols(['h2'])
        return Server(tls)

    def environment(self, **more):
        usual = ('CURL_CA_BUNDLE', 'SSL_CERT_FILE', 'SSL_CERT_DIR')
        return {**super().environment(), **dict.fromkeys(usual, ''), **more}

    def test_trusted_authorities(self):
        for variable in ('SSL_CERT_FILE', 'CURL_CA_BUNDLE'):
            self.expect_file(self.url(variable), **{variable: str(self.authority)})
        self.expect_file(self.url('folder'), SSL_CERT_DIR=str(self.authorities))
        self.assertEqual(len(self.server.requests), 3)

    def test_interrupted_transfers_go_on(self):
        self.expect_file(self.url('cut'), '--sha256', SHA256, SSL_CERT_FILE=str(self.authority))

    def test_an_unknown_authority(self):
        self.expect_error(['cannot download https://', 'certificate', 'SSL_CERT_FILE'],
                          self.url('whole'))
        self.assertEqual(self.server.requests, [])

    def test_a_certificate_for_another_name(self):
        self.expect_error(['certificate', "'localhost'", 'check the address'],
                          self.url('whole', 'localhost'), SSL_CERT_FILE=str(self.authority))
        self.assertEqual(self.server.requests, [])

    def expect_attempts(self, serve, attempts):
        """Of a download from a server that does `serve` to every connection."""
        connections = []

        def run():
            while True:
                try:
                    connections.append(listener.accept()[0])
                except OSError:
                    return
                with connections[-1]:
                    serve(connections[-1])

        with socket.create_server(('127.0.0.1', 0)) as listener:
            server = threading.Thread(target=run)
            server.start()
            url = f'https://127.0.0.1:{listener.getsockname()[1]}/x'
            self.expect_error(['cannot download', url], url, SSL_CERT_FILE=str(self.authority))
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
        self.assertEqual(len(connections), attempts)

    def test_broken_handshakes_are_tried_again(self):
        self.expect_attempts(lambda connection: connection.recv(100), 3)

    def test_broken_streams_of_http2_are_tried_again(self):
        def serve(connection):
            with self.http2.wrap_socket(connection, server_side=True) as stream:
                if stream.selected_alpn_protocol() != 'h2':
                    return  # to a libcurl without HTTP/2, whose connection breaks
                received = b''
                # A frame of the first request ends the preface and the settings.
                while b'\0\0\0\1' not in received and (piece := stream.recv(10_000)):
                    received += piece
                settings, reset = b'\0\0\0\4\0\0\0\0\0', b'\0\0\4\3\0\0\0\0\1\0\0\0\2'
                stream.sendall(settings + reset)
                stream.recv(10_000)

        self.expect_attempts(serve, 3)

    def test_authorities_that_are_not_there(self):
        absent = str(self.home / 'absent.pem')
        self.expect_error([absent, 'ca-certificates', 'SSL_CERT_FILE'], self.url('whole'),
                          SSL_CERT_FILE=absent)


if __name__ == '__main__':
    try:
        ctypes.CDLL('libcurl.so.4')
    except OSError as error:
        print(f'skipped: {error}')
        sys.exit(77)
    unittest.main()
