{{/* Where the archive is: claim, s3, or empty where there is none. */}}
{{- define "co.archivePlace" -}}
{{- $archive := .Values.archive -}}
{{- $places := list -}}
{{- if $archive.claim -}}{{- $places = append $places "archive.claim" -}}{{- end -}}
{{- if $archive.create.size -}}{{- $places = append $places "archive.create.size" -}}{{- end -}}
{{- if $archive.s3.bucket -}}{{- $places = append $places "archive.s3.bucket" -}}{{- end -}}
{{- if gt (len $places) 1 -}}
{{- fail (printf "only one of archive.claim, archive.create.size and archive.s3.bucket may be set, not %s" (join " and " $places)) -}}
{{- end -}}
{{- if not $archive.s3.bucket -}}
{{- range $name, $value := $archive.s3 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) -}}
{{- fail (printf "archive.s3.%s needs archive.s3.bucket" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $archive.s3.kmsKeyId (ne $archive.s3.encryption "aws:kms") -}}
{{- fail "archive.s3.kmsKeyId needs archive.s3.encryption=aws:kms" -}}
{{- end -}}
{{- if and $archive.encrypt (not $places) -}}
{{- fail "archive.encrypt needs archive.claim, archive.create.size or archive.s3.bucket" -}}
{{- end -}}
{{- if $archive.s3.bucket -}}s3{{- else if $places -}}claim{{- end -}}
{{- end -}}

{{- define "co.archiveClaim" -}}
{{- default (printf "%s-archive" (include "co.fullname" .)) .Values.archive.claim -}}
{{- end -}}

{{/* Variables of both processes; nothing without an archive. */}}
{{- define "co.archiveEnv" -}}
{{- $place := include "co.archivePlace" . -}}
{{- with .Values.archive -}}
{{- if eq $place "claim" }}
- { name: ARCHIVE_DIR, value: /var/lib/conversation-operator/archive }
{{- end }}
{{- if eq $place "s3" }}
{{- with .s3 }}
- { name: ARCHIVE_S3_BUCKET, value: {{ .bucket | quote }} }
{{- range $variable, $value := dict "ENDPOINT" .endpoint "REGION" .region "PREFIX" .prefix "ENCRYPTION" .encryption "KMS_KEY_ID" .kmsKeyId }}
{{- if $value }}
- { name: ARCHIVE_S3_{{ $variable }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}
{{- if kindIs "bool" .pathStyle }}
- { name: ARCHIVE_S3_PATH_STYLE, value: {{ .pathStyle | quote }} }
{{- end }}
{{- if .secretName }}
- { name: ARCHIVE_S3_CREDENTIALS_DIR, value: /etc/conversation-operator/archive-credentials }
{{- end }}
{{- end }}
{{- end }}
{{- if and $place .encrypt }}
- { name: ARCHIVE_ENCRYPT, value: 'true' }
{{- end }}
{{- end }}
{{- end -}}

{{/* Takes a dict of root, and readOnly: whether the process only reads the archive. */}}
{{- define "co.archiveMount" -}}
{{- if eq (include "co.archivePlace" .root) "claim" }}
- { name: archive, mountPath: /var/lib/conversation-operator/archive{{ if .readOnly }}, readOnly: true{{ end }} }
{{- end }}
{{- if .root.Values.archive.s3.secretName }}
- { name: archive-credentials, mountPath: /etc/conversation-operator/archive-credentials, readOnly: true }
{{- end }}
{{- end -}}

{{- define "co.archiveVolume" -}}
{{- if eq (include "co.archivePlace" .) "claim" }}
- name: archive
  persistentVolumeClaim: { claimName: {{ include "co.archiveClaim" . }} }
{{- end }}
{{- with .Values.archive.s3.secretName }}
- name: archive-credentials
  secret: { secretName: {{ . }}, defaultMode: 292 }
{{- end }}
{{- end -}}

{{- /*
What both processes reach for the archive. Takes a dict of root, and closed: whether the pods may reach no public address.
*/}}
{{- define "co.archiveEgress" -}}
{{- if eq (include "co.archivePlace" .root) "s3" -}}
{{- $s3 := .root.Values.archive.s3 -}}
{{- $policies := .root.Values.networkPolicies -}}
{{- $host := "" -}}
{{- $ports := list 443 -}}
{{- with $s3.endpoint -}}
{{- $url := urlParse . -}}
{{- $host = regexReplaceAll ":[0-9]+$" $url.host "" -}}
{{- $ports = list (regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) | int) -}}
{{- end -}}
{{- $namespace := "" -}}
{{- if regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host -}}
{{- $namespace = index (splitList "." $host) 1 -}}
{{- $ports = list -}}
{{- end -}}
- to:
    {{- if $policies.archive.to }}
    {{- toYaml $policies.archive.to | nindent 4 }}
    {{- else if $namespace }}
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ $namespace }} } }
    {{- else }}
    {{- if not .closed }}
    {{- include "co.publicInternet" $policies | nindent 4 }}
    {{- end }}
    {{- if or .closed $host }}
    {{- range include "co.privateCidrs" .root | fromJsonArray }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
    {{- end }}
    {{- end }}
  {{- with $policies.archive.ports | default $ports }}
  ports:
    {{- range . }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  {{- end }}
{{- if not $s3.secretName }}
# Credentials: the metadata service of a node, the agent of EKS Pod Identity, and the Security Token
# Service, which web identities need.
- to:
    {{- range list "169.254.169.254/32" "169.254.170.23/32" "fd00:ec2::254/128" "fd00:ec2::23/128" }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  ports: [{ port: 80, protocol: TCP }]
{{- if not .closed }}
- to:
    {{- include "co.publicInternet" $policies | nindent 4 }}
  ports: [{ port: 443, protocol: TCP }]
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}
