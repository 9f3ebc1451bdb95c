{{/* Name of every object: the release's, which has "ragtide" in it. */}}
{{- define "ragtide.fullname" -}}
{{- if contains "ragtide" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-ragtide" (.Release.Name | trunc 32 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels that select all pods of the release. */}}
{{- define "ragtide.selector" -}}
app.kubernetes.io/name: ragtide
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ragtide.labels" -}}
{{ include "ragtide.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Stops with a sentence where values cannot work together. */}}
{{- define "ragtide.check" -}}
{{- if not .Values.redis.url }}{{ fail "redis.url is empty: set it to the URL of your Redis, such as redis://redis-master:6379/0" }}{{ end }}
{{- if contains "@" .Values.redis.url }}{{ fail "redis.url has a user or a password: put the password into the key ragtide_redis_password of existingSecret, and the user into ragtide_redis_username" }}{{ end }}
{{- if and .Values.serve.enabled (not .Values.existingSecret) (not (regexMatch "(?m)^\\s*(\\[\\[serve\\.tokens|tokens|trusted_header)" .Values.config)) }}{{ fail "serve needs tokens: name a Secret with the key ragtide_serve_tokens in existingSecret, or set serve.enabled to false" }}{{ end }}
{{- if and .Values.notify.enabled (not .Values.existingSecret) (not (contains "[[notify.destinations]]" .Values.config)) }}{{ fail "notify needs destinations: add [[notify.destinations]] to config, or the key ragtide_notify_destinations to existingSecret" }}{{ end }}
{{- if and .Values.worker.autoscaling.enabled (not .Values.worker.autoscaling.prometheusUrl) (not (regexMatch "^rediss?://" .Values.redis.url)) }}{{ fail "worker.autoscaling asks one Redis server for the backlog, and redis.url is a cluster or sentinels: set worker.autoscaling.prometheusUrl" }}{{ end }}
{{- end }}
