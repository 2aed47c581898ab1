"""The command `gpu-ledger-amd-exporter`: starts the parts of the exporter and stops them.

Put here: start and end of the process.
Not here: settings (`settings`), or any of the parts.
"""

from __future__ import annotations

import logging
import os
import signal
import ssl
import sys
import threading
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, generate_latest

from amd_exporter.collection import HolderLookup, SnapshotCollector
from amd_exporter.exposition import RegistryCollector
from amd_exporter.server import MetricsServer
from amd_exporter.settings import ExporterSettings, read_settings

log = logging.getLogger("amd_exporter")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    logging.basicConfig(
        level=settings.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    collection = SnapshotCollector(settings, holder_lookup=_holder_lookup(settings))
    registry = CollectorRegistry()
    registry.register(RegistryCollector(collection, settings.node_name))
    if settings.once:
        collected = collection.collect()
        collection.stop()
        sys.stdout.write(generate_latest(registry).decode())
        return 0 if collected.is_ready else 3
    return _serve(settings, registry, collection)


def _serve(
    settings: ExporterSettings, registry: CollectorRegistry, collection: SnapshotCollector
) -> int:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = MetricsServer(settings, registry, collection)
    except (OSError, ssl.SSLError) as error:
        log.error("cannot serve on %s port %d: %s", settings.address, settings.port, error)
        return 3
    collection.start()
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    scheme = "https" if settings.tls_cert else "http"
    log.info("serving %s://%s:%d%s", scheme, settings.address, server.port, settings.metrics_path)
    ended.wait()
    log.info("ending")
    server.shutdown()
    collection.stop()
    server.server_close()
    return 0


def _holder_lookup(settings: ExporterSettings) -> HolderLookup | None:
    path = settings.pod_resources_socket
    if path is None:
        return None
    # Imported only if needed: gRPC takes 18 MiB and doubles the start time.
    from amd_exporter.pod_resources import holders

    return lambda: holders(path, settings.sysfs_path)


if __name__ == "__main__":
    sys.exit(main())
