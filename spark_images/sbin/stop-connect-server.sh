#!/usr/bin/env bash
# What Kubeflow runs before it ends a SparkConnect's pod: the kubelet's signal ends the server.
exit 0
