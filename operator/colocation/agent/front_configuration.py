"""The configuration of nginx, the agent's front, including the limits that apply before authentication. Pure.

nginx ends TLS, waits for slow clients, and sends the files that the agent allows (``X-Accel-Redirect``). It reaches the
agent over unix sockets that only the agent's user can open.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import NamedTuple

from colocation.model.names import AGENT_NODE_HEADER

HEADER_SECONDS = 10
"""From the first byte of a request to the end of its headers."""
BODY_SECONDS = 75
"""Between two pieces of a body. Longer than ``file_requests.UPLOAD_IDLE_SECONDS``, since the agent's error is more
precise.
"""
SEND_SECONDS = 60
"""Between two pieces of a response that a client reads."""
IDLE_SECONDS = 65
"""For a connection without a request."""
WORK_SECONDS = 2 * 3600
"""How long the agent may hold questions or hash tables."""
RELOAD_SECONDS = 3600
"""How long running requests may take to end after a certificate is renewed."""
MAX_CONNECTIONS = 16384
"""Per worker. Connections without a request give way to new ones beyond it."""
MAX_PROBES = 64
MAX_PROBES_PER_SECOND = 50
"""Of one address, on the health port, which needs no token."""
MAX_BODY_BYTES = 64 << 20
"""For JSON bodies: an inventory request names every table of the cluster."""
REQUEST_HEADER = "Colocation-Front-Request"
"""nginx' id of a request, for the agent only; the log line with the sent bytes has it, too."""
PEER_HEADER = "Colocation-Peer"
"""The client's address, for the agent only; a value sent by the client is replaced."""
DISK_PREFIX = "/disk/"
"""Internal location; the rest of the URI is a path below the data root."""

COLD_PREFIX = "/cold/"
"""As ``DISK_PREFIX``, for files that are not in memory: threads read them, so that no worker blocks."""

_SERVER = Template(r"""
    server {
        $listen
        server_name $name;
        ssl_certificate $certificate;
        ssl_certificate_key $key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:sessions:4m;
        ssl_session_tickets off;
        ssl_buffer_size 16k;
        $errors
        limit_conn addresses $address_requests;
        limit_conn servers $requests;
        client_max_body_size $body_bytes;

        location / {
            if ($$is_known_method = 0) { return 405; }
            if ($$is_encoded = 0) { return 400; }
            proxy_pass http://agent;
        }
        location = /v1/files { return 404; }
        location /v1/files/ {
            if ($$is_known_method = 0) { return 405; }
            if ($$is_encoded = 0) { return 400; }
            client_max_body_size 0;
            client_body_buffer_size 256k;
            if ($$file_request = read) { return 418; }
            if ($$file_request = refused) { return 400; }
            proxy_pass http://agent;
        }
        location @read {
            access_log /dev/stdout sent;
            proxy_pass_request_headers off;
            proxy_set_header Connection "";
            proxy_set_header Authorization $$http_authorization;
            proxy_set_header Range $$http_range;
            proxy_set_header $node_header $$http_colocation_node;
            proxy_set_header $request_header $$request_id;
            proxy_set_header $peer_header $$remote_addr;
            proxy_pass http://reads;
        }
        location $disk_prefix {
            internal;
            access_log /dev/stdout sent;
            add_header Content-Digest $$upstream_http_content_digest;
            alias $root;
            disable_symlinks on from=$root;
        }
        location $cold_prefix {
            internal;
            access_log /dev/stdout sent;
            add_header Content-Digest $$upstream_http_content_digest;
            alias $root;
            disable_symlinks on from=$root;
            aio threads;
        }
    }
""")

_TEMPLATE = Template(r"""
daemon off;
$user
pid $folder/nginx.pid;
error_log stderr warn;
worker_processes $workers;
worker_rlimit_nofile $descriptors;
worker_shutdown_timeout ${reload_seconds}s;
events { worker_connections $connections; }
http {
    log_format sent '$$request_id $$body_bytes_sent';
    access_log off;
    server_tokens off;
    default_type application/octet-stream;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/other;
    uwsgi_temp_path $folder/other;
    scgi_temp_path $folder/other;

    client_header_timeout ${header_seconds}s;
    client_body_timeout ${body_seconds}s;
    send_timeout ${send_seconds}s;
    keepalive_timeout ${idle_seconds}s;
    keepalive_requests 100000;
    server_names_hash_bucket_size 512;
    reset_timedout_connection on;
    large_client_header_buffers 4 32k;
    limit_conn_zone $$binary_remote_addr zone=addresses:8m;
    limit_conn_zone $$server_port zone=servers:64k;
    limit_req_zone $$binary_remote_addr zone=probes:1m rate=${probe_rate}r/s;
    limit_conn_status 429;
    limit_req_status 429;
    limit_conn_log_level info;
    limit_req_log_level info;

    sendfile on;
    tcp_nopush on;
    output_buffers 2 64k;

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $$host;
    proxy_set_header $request_header $$request_id;
    proxy_set_header $peer_header $$remote_addr;
    proxy_request_buffering off;
    proxy_max_temp_file_size 0;
    proxy_buffers 8 64k;
    proxy_buffer_size 64k;
    proxy_busy_buffers_size 128k;
    proxy_read_timeout ${work_seconds}s;
    proxy_send_timeout ${body_seconds}s;
    proxy_next_upstream off;

    upstream agent { server unix:$folder/agent.sock; keepalive 64; }
    upstream reads { server unix:$folder/reads.sock; keepalive 64; }
    upstream health { server unix:$folder/health.sock; keepalive 8; }

    map "$$request_method $$content_length$$http_transfer_encoding" $$file_request {
        default other; "~^(GET|HEAD) 0?$$" read; "~^(GET|HEAD) " refused;
    }
    map $$request_method $$is_known_method { default 0; GET 1; HEAD 1; PUT 1; POST 1; DELETE 1; PATCH 1; OPTIONS 1; }
    map $$request_uri $$is_encoded { default 1; "~[^\x21-\x7e]" 0; }
    map $$request $$wrong_request { default InvalidRequest; "~(\.\.|%|[^\x20-\x7e])" InvalidPath; }

    $servers
    server {
        $health_listen
        $errors
        location @read { return 404; }
        limit_conn servers $probes;
        limit_req zone=probes burst=$probe_rate nodelay;
        client_max_body_size 1k;
        location / {
            if ($$is_known_method = 0) { return 405; }
            if ($$is_encoded = 0) { return 400; }
            proxy_pass http://health;
        }
    }
}
""")

_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("$wrong_request", "the request is not allowed; see docs/reference/agent-api.md"),
    404: ("NotFound", "there is no such file; ask another replica"),
    405: ("MethodNotAllowed", "allowed: GET, HEAD, PUT, POST; see docs/reference/agent-api.md"),
    408: ("RequestTimeout", "the request came too slowly; send it again"),
    413: ("BodyTooLarge", f"the body is too large; allowed: {MAX_BODY_BYTES} bytes; ask about fewer tables"),
    414: ("RequestTooLarge", "the request line is too long; allowed: 32768 bytes"),
    416: ("RangeNotSatisfiable", "the file became shorter; ask another replica"),
    429: ("Busy", "too many requests are being served; ask again, or ask another replica"),
    494: ("RequestTooLarge", "the headers are too long; allowed: 32768 bytes each"),
    497: ("InvalidRequest", "this port speaks HTTPS"),
    500: ("StorageFailed", "the file cannot be sent; ask another replica"),
    502: ("AgentUnavailable", "the agent does not answer its front; ask again, or ask another replica"),
    504: ("AgentUnavailable", "the agent does not answer its front; ask again, or ask another replica"),
}
"""Errors that nginx answers itself: status, reason, message."""
_STATUSES = {494: 431, 497: 400, 403: 404, 502: 503, 504: 503}


class ServedCertificate(NamedTuple):
    """PEM files, and the DNS name for which clients get this certificate (SNI); empty = for all other names."""

    certificate: Path
    key: Path
    name: str = ""


@dataclass(frozen=True)
class FrontConfiguration:
    """``addresses`` and ``health_addresses`` as ``listen`` takes them. ``folder`` holds the agent's unix sockets.

    ``certificates``: clients that ask for none of their names get the first.

    ``max_requests`` are served at a time, ``max_requests_per_address`` of them for one client address, which may be a
    whole node behind a host port.
    """

    folder: Path
    data_root: Path
    certificates: Sequence[ServedCertificate]
    addresses: Sequence[str]
    health_addresses: Sequence[str]
    workers: int
    descriptors: int
    max_requests: int
    max_requests_per_address: int
    is_root: bool = False

    def text(self) -> str:
        """The file's content.

        Raises:
            ValueError: a path contains characters that the configuration cannot hold.
        """
        return _TEMPLATE.substitute(
            servers="".join(map(self._server, self.certificates)),
            user="user root;" if self.is_root else "",
            folder=_plain(self.folder),
            workers=self.workers,
            descriptors=self.descriptors,
            connections=min(MAX_CONNECTIONS, self.descriptors // 2),
            reload_seconds=RELOAD_SECONDS,
            header_seconds=HEADER_SECONDS,
            body_seconds=BODY_SECONDS,
            send_seconds=SEND_SECONDS,
            idle_seconds=IDLE_SECONDS,
            work_seconds=WORK_SECONDS,
            probe_rate=MAX_PROBES_PER_SECOND,
            probes=MAX_PROBES,
            request_header=REQUEST_HEADER,
            peer_header=PEER_HEADER,
            health_listen=" ".join(f"listen {address};" for address in self.health_addresses),
            errors=_error_pages(),
        )

    def _server(self, served: ServedCertificate) -> str:
        """The server block of one certificate."""
        return _SERVER.substitute(
            listen=" ".join(f"listen {address} ssl;" for address in self.addresses),
            name=_plain(served.name) if served.name else '""',
            certificate=_plain(served.certificate),
            key=_plain(served.key),
            errors=_error_pages(),
            requests=self.max_requests,
            address_requests=self.max_requests_per_address,
            body_bytes=MAX_BODY_BYTES,
            request_header=REQUEST_HEADER,
            peer_header=PEER_HEADER,
            node_header=AGENT_NODE_HEADER,
            disk_prefix=DISK_PREFIX,
            cold_prefix=COLD_PREFIX,
            root=f"{_plain(self.data_root)}/",
        )


def _plain(path: Path | str) -> str:
    text = str(path)
    if not re.fullmatch(r"[-\w./+,:=@\[\]]+", text):
        raise ValueError(f"path {text!r} is not allowed; allowed: letters, digits and -_./+,:=@[]")
    return text


def _error_pages() -> str:
    lines = ["error_page 403 =404 /error/404;", "error_page 418 = @read;"]
    for status, (reason, message) in _ERRORS.items():
        code = _STATUSES.get(status, status)
        body = f'{{"error": "{reason}", "message": "{message}"}}'
        lines.append(f"error_page {status} ={code} /error/{status};")
        later = "add_header Retry-After 1 always; " if code in (429, 503) else ""
        lines.append(
            f"location = /error/{status} {{ internal; default_type application/json; {later}return {code} '{body}'; }}"
        )
    return "\n        ".join(lines)
