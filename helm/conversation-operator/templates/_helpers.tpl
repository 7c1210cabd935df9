{{- define "co.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "co.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "co.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "co.selector" -}}
app.kubernetes.io/name: {{ include "co.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "co.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{ include "co.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with omit .Values.commonLabels "helm.sh/chart" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where conversations and sandboxes are. */}}
{{- define "co.sandboxNamespace" -}}
{{- default (printf "%s-sandboxes" (.Release.Namespace | trunc 53 | trimSuffix "-")) .Values.sandboxes.namespace -}}
{{- end -}}

{{/* Not empty when something is to be made. Takes a dict of wanted (auto, true or false) and served: what auto means here. */}}
{{- define "co.served" -}}
{{- if or (and (kindIs "bool" .wanted) .wanted) (and (kindIs "string" .wanted) .served) -}}
yes
{{- end -}}
{{- end -}}

{{/* repository@digest, else repository:tag. Takes a dict of image and root. */}}
{{- define "co.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end -}}

{{/* Takes a dict of root and component. */}}
{{- define "co.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- fail (printf "%s.serviceAccount.name is needed when %s.serviceAccount.create is false" .component .component) -}}
{{- end -}}
{{- default (printf "%s-%s" (include "co.fullname" .root) .component) $account.name -}}
{{- end -}}

{{- define "co.masterKeySecret" -}}
{{- default (printf "%s-master-key" (include "co.fullname" .)) .Values.masterKey.existingSecret -}}
{{- end -}}

{{- define "co.firstKeySecret" -}}
{{- default (printf "%s-first-key" (include "co.fullname" .)) .Values.firstKey.existingSecret -}}
{{- end -}}

{{/*
Annotations of a resource whose definition this chart brings. At the first install Helm knows no such kind yet when it reads the
manifests, so the resource is made after everything else, with the marks by which the next upgrade takes it over; from then on it is
an ordinary part of the release. It is kept at an uninstall.
*/}}
{{- define "co.customResourceAnnotations" -}}
helm.sh/resource-policy: keep
{{- if not (.Capabilities.APIVersions.Has "conversation-operator.dev/v1alpha1") }}
helm.sh/hook: post-install,post-upgrade
meta.helm.sh/release-name: {{ .Release.Name }}
meta.helm.sh/release-namespace: {{ .Release.Namespace | quote }}
{{- end }}
{{- end -}}

{{/* Not empty when the relay for models is a Deployment of its own. */}}
{{- define "co.hasRelay" -}}
{{- if gt (int .Values.relay.replicas) 0 -}}
{{- if not .Values.gateway.enabled -}}
{{- fail "relay.replicas must be 0 unless gateway.enabled is true: agents reach git, tools and secrets at the gateway" -}}
{{- end -}}
yes
{{- end -}}
{{- end -}}

{{/* The Deployments, separated by spaces. */}}
{{- define "co.components" -}}
{{- $components := list -}}
{{- if .Values.operator.enabled }}{{ $components = append $components "operator" }}{{ end -}}
{{- if .Values.gateway.enabled }}{{ $components = append $components "gateway" }}{{ end -}}
{{- if include "co.hasRelay" . }}{{ $components = append $components "relay" }}{{ end -}}
{{- join " " $components -}}
{{- end -}}

{{/* The Deployment whose pods serve the relay for models. */}}
{{- define "co.relayComponent" -}}
{{- if include "co.hasRelay" . }}relay{{ else }}gateway{{ end -}}
{{- end -}}

{{/* A label of those pods. The Service of the relay selects it, so that each pod is in the Service for as long as it serves the relay. */}}
{{- define "co.modelsLabel" -}}
conversation-operator.dev/serves: models
{{- end -}}

{{/* What the pods of all Deployments have in common. Takes a dict of root and component. */}}
{{- define "co.podPlacement" -}}
{{- $values := index .root.Values .component -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpread.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $values.topologySpread.topologyKey }}
    whenUnsatisfiable: {{ $values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "co.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
    # Of the pods of one version only: those that an upgrade takes away don't count.
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{- define "co.podSecurity" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- with .Values.podSecurityContext }}
{{ toYaml . }}
{{- /* The volumes of the archive and of the audit log belong to the group of the processes. A platform that chooses users chooses the group too. */}}
{{- if and (or (eq (include "co.archivePlace" $) "claim") $.Values.gateway.audit.file) .runAsUser (not (hasKey . "fsGroup")) }}
fsGroup: {{ .runAsGroup | default .runAsUser | int64 }}
{{- if not (hasKey . "fsGroupChangePolicy") }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "co.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Environment of all Deployments. */}}
{{- define "co.processEnv" -}}
- { name: NAMESPACE, value: {{ include "co.sandboxNamespace" . | quote }} }
- name: MASTER_KEY_FILES
  value: {{ range $index, $entry := .Values.masterKey.entries }}{{ if $index }},{{ end }}/etc/conversation-operator/master-key/{{ $entry }}{{ end }}
- { name: METRICS_PORT, value: '9464' }
- { name: LOG_FORMAT, value: json }
{{- end -}}

{{/* Environment of the operator and the gateway. */}}
{{- define "co.commonEnv" -}}
{{ include "co.processEnv" . }}
{{ include "co.gitHostsEnv" . }}
{{- end -}}

{{- define "co.gitHostsEnv" -}}
# Not made of a map: the first one is the default, and maps are sorted.
- name: GIT_HOSTS
  value: '{ {{- range $index, $host := .Values.gitHosts }}{{ if $index }},{{ end }}{{ $host.provider | toJson }}:{{ $host.url | toJson }}{{ end -}} }'
{{- end -}}

{{- define "co.masterKeyMount" -}}
{ name: master-key, mountPath: /etc/conversation-operator/master-key, readOnly: true }
{{- end -}}

{{- define "co.masterKeyVolume" -}}
name: master-key
secret: { secretName: {{ include "co.masterKeySecret" . | quote }}, defaultMode: 292 }
{{- end -}}

{{/* Maximum number of processes that serve the relay for models. */}}
{{- define "co.relayReplicas" -}}
{{- if include "co.hasRelay" . -}}
{{- .Values.relay.replicas | int64 -}}
{{- else -}}
{{- with .Values.gateway -}}
{{- ternary .autoscaling.maxReplicas .replicas .autoscaling.enabled | int64 -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* models.limits for one process, as JSON: each gets the same part of a limit, and at least 1. */}}
{{- define "co.modelsLimits" -}}
{{- $replicas := max 1 (include "co.relayReplicas" . | int64) -}}
{{- $entries := list -}}
{{- $credentials := dict -}}
{{- range .Values.models.limits -}}
{{- if hasKey $credentials .credential -}}
{{- fail (printf "models.limits has two entries for the credential %s" .credential) -}}
{{- end -}}
{{- $_ := set $credentials .credential true -}}
{{- $entry := dict "credential" .credential -}}
{{- range $name, $limit := pick . "calls" "tokensPerMinute" -}}
{{- $_ := set $entry $name (max 1 (div ($limit | int64) $replicas)) -}}
{{- end -}}
{{- with .perOwner -}}
{{- $perOwner := dict -}}
{{- range $name, $limit := . -}}
{{- $_ := set $perOwner $name (max 1 (div ($limit | int64) $replicas)) -}}
{{- end -}}
{{- $_ := set $entry "perOwner" $perOwner -}}
{{- end -}}
{{- $entries = append $entries $entry -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}
