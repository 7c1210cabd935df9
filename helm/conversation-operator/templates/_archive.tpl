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
  secret: { secretName: {{ . | quote }}, defaultMode: 292 }
{{- end }}
{{- end -}}

{{- /*
What both processes reach for the archive. Takes a dict of root, and closed: whether the pods may reach no public address. Public
hosts are left to a CiliumNetworkPolicy where there is one.
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
{{- if not (include "co.archiveNames" .) }}
- to:
    {{- if $policies.archive.to }}
    {{- toYaml $policies.archive.to | nindent 4 }}
    {{- else if $namespace }}
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ $namespace | quote }} } }
    {{- else }}
    {{- if not .closed }}
    {{- include "co.publicInternet" $policies | nindent 4 }}
    {{- end }}
    {{- if or .closed $host }}
    {{- include "co.privateNetworks" .root | nindent 4 }}
    {{- end }}
    {{- end }}
  {{- with $policies.archive.ports | default $ports }}
  ports:
    {{- range . }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
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
{{- if not (or .closed $policies.cilium.enabled) }}
- to:
    {{- include "co.publicInternet" $policies | nindent 4 }}
  ports: [{ port: 443, protocol: TCP }]
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /*
The hosts of the store, where names are to mean it: archive.s3.eu-central-1.amazonaws.com:443. Takes the same dict.
*/}}
{{- define "co.archiveNames" -}}
{{- $policies := .root.Values.networkPolicies -}}
{{- if and $policies.cilium.enabled (not .closed) (not $policies.archive.to) (eq (include "co.archivePlace" .root) "s3") -}}
{{- $s3 := .root.Values.archive.s3 -}}
{{- $ports := $policies.archive.ports -}}
{{- $names := list -}}
{{- with $s3.endpoint -}}
{{- $authority := include "co.authority" . -}}
{{- $host := regexReplaceAll ":[0-9]+$" $authority "" -}}
{{- /* A Service of the cluster has no name to Cilium. */ -}}
{{- if not (regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host) -}}
{{- $names = list $host -}}
{{- if not (or $s3.pathStyle (kindIs "invalid" $s3.pathStyle)) -}}
{{- $names = list (printf "%s.%s" $s3.bucket $host) -}}
{{- end -}}
{{- $ports = $ports | default (list (regexFind "[0-9]+$" $authority)) -}}
{{- end -}}
{{- else -}}
{{- $names = list (printf "%s.s3.%s" $s3.bucket (include "co.awsRegion" $s3)) (printf "s3.%s" (include "co.awsRegion" $s3)) -}}
{{- end -}}
{{- $authorities := list -}}
{{- range $name := $names -}}
{{- range $ports | default (list 443) -}}
{{- $authorities = append $authorities (printf "%s:%v" $name .) -}}
{{- end -}}
{{- end -}}
{{- join " " $authorities -}}
{{- end -}}
{{- end -}}

{{- /* The hosts that give credentials for the store. Takes the same dict. */}}
{{- define "co.credentialNames" -}}
{{- if and (not .closed) (eq (include "co.archivePlace" .root) "s3") (not .root.Values.archive.s3.secretName) -}}
sts.amazonaws.com:443 {{ printf "sts.%s:443" (include "co.awsRegion" .root.Values.archive.s3) }}
{{- end -}}
{{- end -}}

{{- /* Takes archive.s3. The platform may name the region to the process alone. */}}
{{- define "co.awsRegion" -}}
{{- default "*" .region }}.amazonaws.com{{ if hasPrefix "cn-" .region }}.cn{{ end }}
{{- end -}}
