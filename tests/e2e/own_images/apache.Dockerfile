# An image laid out as Apache's own (`apache/spark:…-python3-ubuntu`): Spark at /opt/spark as its archive has it, Python of
# the distribution, user 185 by its name. Spark's files come from our image, since no registry with Apache's can be reached.
ARG BASE
ARG SPARK_IMAGE
FROM ${SPARK_IMAGE} AS spark
USER root
# Without what our image adds to Spark: links to our jar, to those for S3, and to the scripts in sbin.
RUN cp -a /opt/spark/home/. /spark && find /spark -type l -delete

FROM ${BASE}
RUN groupadd --system --gid=185 spark \
    && useradd --system --uid=185 --gid=spark --home-dir /nonexistent spark \
    && mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends bash gosu libnss-wrapper openjdk-17-jre-headless procps python3 python3-pip tini \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /opt/spark/work-dir /opt/spark/python \
    && chmod g+w /opt/spark/work-dir \
    && touch /opt/spark/RELEASE \
    && chown -R spark:spark /opt/spark
COPY --from=spark --chown=spark:spark /spark/bin /opt/spark/bin
COPY --from=spark --chown=spark:spark /spark/sbin /opt/spark/sbin
COPY --from=spark --chown=spark:spark /spark/jars /opt/spark/jars
COPY --from=spark --chown=spark:spark /spark/python /opt/spark/python
COPY --chmod=755 entrypoint.sh /opt/entrypoint.sh
ENV SPARK_HOME=/opt/spark
WORKDIR /opt/spark/work-dir
USER spark
ENTRYPOINT ["/opt/entrypoint.sh"]
