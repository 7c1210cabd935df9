{{/*
A SandboxTemplate. Takes a dict of root, name, values, which are like defaultTemplate, and path: where people set the values.
*/}}
{{- define "co.sandboxTemplate" -}}
{{- $root := .root -}}
{{- $path := .path -}}
apiVersion: conversation-operator.dev/v1alpha1
kind: SandboxTemplate
metadata:
  name: {{ .name }}
  namespace: {{ include "co.sandboxNamespace" $root | quote }}
  {{- include "co.initialObjectMetadata" $root | nindent 2 }}
{{- with .values }}
spec:
  displayName: {{ .displayName | quote }}
  description: {{ .description | quote }}
  podTemplate:
    {{- if or .podAnnotations .podLabels }}
    metadata:
      {{- with .podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .podLabels }}
      labels:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    spec:
      {{- with .image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      {{- with .priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with .nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: agent
          image: {{ include "co.image" (dict "image" .image "root" $root) }}
          imagePullPolicy: {{ .image.pullPolicy }}
          {{- with .env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          resources:
            {{- toYaml .resources | nindent 12 }}
          securityContext:
            readOnlyRootFilesystem: {{ .readOnlyRootFilesystem }}
          {{- if .tmpSize }}
          volumeMounts:
            - { name: tmp, mountPath: /tmp }
          {{- end }}
      {{- if .tmpSize }}
      volumes:
        - name: tmp
          emptyDir: { sizeLimit: {{ .tmpSize | quote }} }
      {{- else if .readOnlyRootFilesystem }}
      {{- fail (printf "%s.tmpSize: an empty value needs %s.readOnlyRootFilesystem: false, because the agent writes to /tmp" $path $path) }}
      {{- end }}
  agent:
    port: {{ .agent.port }}
    workingDir: {{ .agent.workingDir | quote }}
    kind: {{ .agent.kind }}
    {{- with .agent.acp }}
    acp:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .agent.model }}
    model: {{ . | quote }}
    {{- end }}
    {{- with .agent.baseUrl }}
    baseUrl: {{ . | quote }}
    {{- end }}
    {{- with .agent.credential }}
    credential: {{ . | quote }}
    {{- end }}
    {{- if kindIs "slice" .agent.allowedModels }}
    allowedModels: {{ toJson .agent.allowedModels }}
    {{- end }}
    {{- if and .agent.credential (not .agent.baseUrl) (not (kindIs "slice" .agent.allowedModels)) }}
    {{- fail (printf "%s.agent.credential needs %s.agent.baseUrl, or allowedModels: else the name of a model says where the key goes" $path $path) }}
    {{- end }}
    {{- if kindIs "slice" .agent.tools }}
    tools: {{ toJson .agent.tools }}
    {{- end }}
    {{- with .agent.confirmationPolicy }}
    confirmationPolicy: {{ . }}
    {{- end }}
    {{- with .agent.maxIterations }}
    maxIterations: {{ . | int64 }}
    {{- end }}
  {{- with .git }}
  git:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .models }}
  models:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  storage:
    size: {{ .storage.size | quote }}
    {{- with .storage.storageClassName }}
    storageClassName: {{ . | quote }}
    {{- end }}
    retain: {{ .storage.retain }}
  startDeadline: {{ .startDeadline | quote }}
  {{- with .idleTimeout }}
  idleTimeout: {{ . | quote }}
  {{- end }}
  {{- with .maxActiveTime }}
  maxActiveTime: {{ . | quote }}
  {{- end }}
  {{- $retention := dict }}
  {{- range $rule, $kept := .retention }}
  {{- if $kept }}
  {{- $_ := set $retention $rule $kept }}
  {{- end }}
  {{- end }}
  {{- with $retention }}
  retention:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  archive:
    enabled: {{ .archive.enabled }}
    maxBytes: {{ .archive.maxBytes | int64 }}
    {{- with .archive.retention }}
    retention: {{ . | quote }}
    {{- end }}
{{- end }}
{{- end -}}
