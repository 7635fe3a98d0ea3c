{{/*
Names are fixed, not made from the release's name: the CRDs and ClusterRoles allow one installation per cluster, and
documentation, RoleBindings of users and the CLI name them.
*/}}
{{- define "colocation.labels" -}}
app.kubernetes.io/name: colocation-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Selector of one component's pods: (dict "component" "agent"). */}}
{{- define "colocation.selector" -}}
app.kubernetes.io/name: colocation-operator
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of nodes: a value that --set made a boolean becomes the text that Kubernetes wants. */}}
{{- define "colocation.texts" -}}
{{- $texts := dict -}}
{{- range $key, $value := . }}{{- $_ := set $texts $key (toString $value) -}}{{- end -}}
{{- toYaml $texts -}}
{{- end }}

{{- define "colocation.repository" -}}
{{- $repository := required "image.repository is empty, so no pod would find its image: build and push the images, and add --set image.repository=REGISTRY/colocation-operator with your registry (README.md, On your own cluster; examples/quickstart for kind and k3d). To upgrade with the values of the installation, add --reset-then-reuse-values" .Values.image.repository -}}
{{- if not (regexMatch "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$" $repository) -}}
{{- fail (printf "image.repository is %q, which no image can be named: give REGISTRY/colocation-operator, without https:// and in lower case; a tag belongs in image.tag. If it begins with /, the shell has no REGISTRY: export REGISTRY=registry.example.com/data" $repository) -}}
{{- end -}}
{{- $repository -}}
{{- end }}

{{/* By digest when there is one: a tag may be moved, a digest never. */}}
{{- define "colocation.image" -}}
{{- with .Values.image.digest -}}
{{ include "colocation.repository" $ }}@{{ . }}
{{- else -}}
{{ include "colocation.repository" . }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "colocation.sparkImage" -}}
{{- $image := .Values.spark.image -}}
{{- if not $image -}}
{{- $repository := include "colocation.repository" . -}}
{{- if not (hasSuffix "colocation-operator" $repository) -}}
{{- fail (printf "spark.image is empty, and image.repository (%s) does not end with colocation-operator, so its name cannot be derived: add --set spark.image=REGISTRY/colocation-spark:%s" $repository .Chart.AppVersion) -}}
{{- end -}}
{{- $image = printf "%scolocation-spark:%s" (trimSuffix "colocation-operator" $repository) (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- with .Values.spark.digest -}}
{{ regexReplaceAll "(@.*|:[^:/]*)$" $image "" }}@{{ . }}
{{- else -}}
{{ $image }}
{{- end -}}
{{- end }}

{{/* Whether the operator signs the agents' certificates; else another controller does, and the operator approves. */}}
{{- define "colocation.signsItself" -}}
{{ eq .Values.agent.tls.signerName "colocation.dev/agent" }}
{{- end }}

{{- define "colocation.authoritySecret" -}}
{{ .Values.agent.tls.caSecret | default "colocation-agent-authority" }}
{{- end }}

{{- define "colocation.adminTlsSecret" -}}
{{ .Values.adminApi.tls.existingSecret | default "colocation-operator-tls" }}
{{- end }}

{{/*
The webhooks' certificate. cert-manager's Secret stays when cert-manager is switched off; helm takes over no Secret that
it has not made, so the chart's own then has another name, and keeps it.
*/}}
{{- define "colocation.webhooksTlsSecret" -}}
{{- $name := "colocation-webhooks-tls" -}}
{{- $own := "colocation-webhooks-own-tls" -}}
{{- if not .Values.webhooks.certificate.certManager.enabled -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace $name -}}
{{- $isOurs := eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" (default dict $found)) .Release.Name -}}
{{- if or (and $found (not $isOurs)) (lookup "v1" "Secret" .Release.Namespace $own) -}}
{{- $name = $own -}}
{{- end -}}
{{- end -}}
{{ $name }}
{{- end }}

{{/* Names of the pull Secrets, for the clone Jobs: a,b. */}}
{{- define "colocation.pullSecretNames" -}}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- join "," $names }}
{{- end }}

{{/* What every container of ours gives up. */}}
{{- define "colocation.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "colocation.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.runAsUser | int }}
runAsGroup: {{ .Values.runAsUser | int }}
fsGroup: {{ .Values.runAsUser | int }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Annotations of a pod: (dict "root" $ "port" 8441 "annotations" …). */}}
{{- define "colocation.podAnnotations" -}}
{{- if .root.Values.metrics.annotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- with .annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A whole number, or nothing for null: as programs read it from a variable. */}}
{{- define "colocation.optionalInteger" -}}
{{- if not (kindIs "invalid" .) }}{{ int64 . }}{{ end }}
{{- end }}

{{/* cert-manager puts the CA into webhook configurations that have this annotation. */}}
{{- define "colocation.webhookAnnotations" -}}
{{- if .Values.webhooks.certificate.certManager.enabled -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/colocation-webhooks
{{- end }}
{{- end }}

{{/* What both webhooks share: (dict "root" $ "path" "/v1/…" "ca" "<base64>" "failurePolicy" "Ignore"). */}}
{{- define "colocation.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
timeoutSeconds: {{ .root.Values.webhooks.timeoutSeconds | int }}
failurePolicy: {{ .failurePolicy }}
clientConfig:
  service: {name: colocation-webhooks, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}}
  {{- with .ca }}
  caBundle: {{ . }}
  {{- end }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{- uniq (concat (list "kube-system" .root.Release.Namespace) .root.Values.webhooks.excludedNamespaces) | toYaml | nindent 8 }}
{{- end }}

{{/* matchConditions of policies that hold for all but the operator: (dict "operator" "<user>" "resource" "<plural>"). */}}
{{- define "colocation.notTheOperator" -}}
- name: not-the-operator
  expression: request.userInfo.username != '{{ .operator }}'
- name: may-not-act-for-it
  expression: >-
    !authorizer.group('colocation.dev').resource('{{ .resource }}').subresource('operator')
    .namespace(request.namespace).name(request.name).check('update').allowed()
{{- end }}

{{/* The binding of a ValidatingAdmissionPolicy to everything: (dict "root" $ "name" "<policy>"). */}}
{{- define "colocation.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "colocation.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}
