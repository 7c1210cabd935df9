{{/*
The objects that an installation begins with: the default quota, the default template and those of agents. People change them with
kubectl, so they are no part of the release: Helm would refuse the next upgrade, and a tool of GitOps would take the change back. The
operator makes them, and lets them follow the values until a user has changed them. A release without an operator has them itself.
*/}}
{{- define "co.initialObjects" -}}
{{- with .Values.defaultQuota }}
{{- if .create }}
---
apiVersion: conversation-operator.dev/v1alpha1
kind: ConversationQuota
metadata:
  name: default
  namespace: {{ include "co.sandboxNamespace" $ | quote }}
  {{- include "co.initialObjectMetadata" $ | nindent 2 }}
spec:
  scope: Owner
  limit: {{ .limit }}
  onExceeded: {{ .onExceeded }}
  minActiveSeconds: {{ .minActiveSeconds }}
  autoResume: {{ .autoResume }}
  {{- range $field := list "maxConversations" "maxStoredBytes" "maxSandboxes" "maxArchivedBytes" }}
  {{- $limit := index $.Values.defaultQuota $field }}
  {{- if not (kindIs "invalid" $limit) }}
  {{ $field }}: {{ int64 $limit }}
  {{- end }}
  {{- end }}
  {{- with .archiveRetention }}
  archiveRetention: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- if .Values.defaultTemplate.create }}
---
{{ include "co.sandboxTemplate" (dict "root" . "name" "default" "path" "defaultTemplate" "values" .Values.defaultTemplate) }}
{{- end }}
{{- $default := .Values.defaultTemplate }}
{{- range $name, $agent := .Values.agents }}
{{- if $agent.enabled }}
{{- $path := printf "agents.%s" $name }}
{{- if not $agent.image.repository }}
{{- fail (printf "%s.image.repository is needed when %s.enabled is true: IMAGES=acp-%s make images builds the image" $path $path $name) }}
{{- end }}
{{- $acp := dict "agent" $name }}
{{- range $setting, $value := $agent.acp }}
{{- if $value }}
{{- $_ := set $acp $setting $value }}
{{- end }}
{{- end }}
{{- $settings := merge (dict "kind" "acp" "acp" $acp) $agent.agent (pick $default.agent "port" "workingDir") }}
{{- $image := merge (dict) $agent.image (pick $default.image "pullPolicy" "pullSecrets") }}
{{- $own := merge (dict "agent" $settings "image" $image) (pick $agent "displayName" "description" "resources") }}
{{- $rest := omit $default "create" "agent" "image" "displayName" "description" "resources" }}
---
{{ include "co.sandboxTemplate" (dict "root" $ "name" $name "path" $path "values" (merge $own $rest)) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "co.initialObjectMetadata" -}}
labels:
  {{- if .Values.operator.enabled }}
  {{- /* Not the labels of the release: by app.kubernetes.io/instance Argo CD takes an object for its own, and prunes it. */}}
  app.kubernetes.io/name: {{ include "co.name" . }}
  {{- with omit .Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- else }}
  {{- include "co.labels" . | nindent 2 }}
annotations:
  {{- include "co.customResourceAnnotations" . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The names of the SandboxTemplates among them, as a list in JSON. */}}
{{- define "co.initialTemplates" -}}
{{- $names := list -}}
{{- if .Values.defaultTemplate.create }}{{ $names = append $names "default" }}{{ end -}}
{{- range $name, $agent := .Values.agents }}{{ if $agent.enabled }}{{ $names = append $names $name }}{{ end }}{{ end -}}
{{- toJson $names -}}
{{- end -}}
