"""Gets a URL with what Python has: file of authorities, URL, client.

urllib, requests, aiohttp and httpx use Python's ssl, which is OpenSSL's; any other client is the
name of a build of libcurl, such as libcurl-gnutls.so.4.
"""

import ctypes
import ssl
import sys

authority, url, client = sys.argv[1:]


def by_urllib():
    import urllib.request

    with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=authority)) as answer:
        return "HTTP/1.1", answer.status, answer.read().decode()


def by_requests():
    import requests

    with requests.Session() as session:
        answer = session.get(url, verify=authority)
        return "HTTP/1.1", answer.status_code, answer.text


def by_aiohttp():
    import asyncio

    import aiohttp

    async def get():
        async with aiohttp.ClientSession() as session:
            async with session.get(url, ssl=ssl.create_default_context(cafile=authority)) as answer:
                return "HTTP/1.1", answer.status, await answer.text()

    return asyncio.run(get())


def by_httpx():
    import httpx

    with httpx.Client(http2=True, verify=ssl.create_default_context(cafile=authority)) as session:
        answer = session.get(url)
        return answer.http_version, answer.status_code, answer.text


def by_libcurl(name):
    """Constants are those of curl/curl.h, which never change."""
    curl = ctypes.CDLL(name)
    curl.curl_easy_init.restype = ctypes.c_void_p
    curl.curl_easy_strerror.restype = ctypes.c_char_p
    handle = ctypes.c_void_p(curl.curl_easy_init())
    content = []
    take = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)(
        lambda data, size, count, _: content.append(ctypes.string_at(data, size * count)) or size * count
    )
    for option, value in (10002, url.encode()), (10065, authority.encode()), (20011, take):  # URL, CAINFO, WRITEFUNCTION
        curl.curl_easy_setopt(handle, option, value)
    code = curl.curl_easy_perform(handle)
    if code:
        sys.exit(curl.curl_easy_strerror(code).decode())
    status, version = ctypes.c_long(), ctypes.c_long()
    curl.curl_easy_getinfo(handle, 0x200002, ctypes.byref(status))  # RESPONSE_CODE
    curl.curl_easy_getinfo(handle, 0x20002E, ctypes.byref(version))  # HTTP_VERSION
    return "HTTP/2" if version.value == 3 else "HTTP/1.1", status.value, b"".join(content).decode()


ways = {"urllib": by_urllib, "requests": by_requests, "aiohttp": by_aiohttp, "httpx": by_httpx}
print(*ways[client]() if client in ways else by_libcurl(client))
