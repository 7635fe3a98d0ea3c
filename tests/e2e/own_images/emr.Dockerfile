# An image laid out as those of EMR on EKS, with Apache's Spark in the place of Amazon's: Spark at /usr/lib/spark, user
# hadoop by its name, its entrypoint in /usr/bin.
ARG BASE
ARG SPARK_IMAGE
FROM ${SPARK_IMAGE} AS spark
USER root
RUN cp -a /opt/spark/home/. /spark && find /spark -type l -delete

FROM ${BASE}
RUN groupadd --gid 1000 hadoop \
    && useradd --uid 999 --gid hadoop --create-home --home-dir /home/hadoop hadoop \
    && mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends bash openjdk-17-jre-headless procps python3 python3-pip tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=spark /spark/bin /usr/lib/spark/bin
COPY --from=spark /spark/sbin /usr/lib/spark/sbin
COPY --from=spark /spark/jars /usr/lib/spark/jars
COPY --from=spark /spark/python /usr/lib/spark/python
COPY --chmod=755 entrypoint.sh /usr/bin/entrypoint.sh
ENV SPARK_HOME=/usr/lib/spark
WORKDIR /home/hadoop
USER hadoop:hadoop
ENTRYPOINT ["/usr/bin/entrypoint.sh"]
