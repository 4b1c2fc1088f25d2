"""The Docker engine of this machine and the image that brokers run in."""

from __future__ import annotations

import os
import sys
from typing import Any

from kafka_assignors.extras import install

from ...errors import DockerUnavailable
from ..settings import KAFKA_VERSION

IMAGE_ENV = "KAFKA_ASSIGNORS_IMAGE"
"""Names an image with ``java`` and ``sh`` on its path and Kafka's jars in ``/opt/kafka/libs``."""


def docker_problem() -> str | None:
    """Why no container can be started on this machine, or None if an engine answers."""
    try:
        import docker
    except ImportError:
        return f"the docker package is not installed ({install('docker')})"
    try:
        client = docker.from_env(timeout=10)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # the client raises its own, requests' and urllib3's errors
        return f"no Docker engine answers at {os.environ.get('DOCKER_HOST', 'the default socket')} ({error})"
    return None


def image_name(version: str = KAFKA_VERSION) -> str:
    """Name of the image: `KAFKA_ASSIGNORS_IMAGE`, else the official one."""
    return os.environ.get(IMAGE_ENV) or f"apache/kafka:{version}"


def require_image(client: Any, image: str) -> None:
    """Pull the image unless this machine has it. DockerUnavailable if it cannot be pulled."""
    from docker.errors import DockerException, ImageNotFound

    try:
        client.images.get(image)
        return
    except ImageNotFound:
        print(f"pulling {image}", file=sys.stderr)
    try:
        client.images.pull(image)
    except (DockerException, OSError) as error:
        raise DockerUnavailable(
            f"image {image} is not on this machine and cannot be pulled ({error}); build one in a "
            f"checkout of kafka-assignors by 'python .ci/broker_image.py NAME', and name it by {IMAGE_ENV}"
        ) from error
