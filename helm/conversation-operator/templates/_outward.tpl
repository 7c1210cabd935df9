{{/* A JSON array of variables, without those of which the list `own` has one. Takes a dict of own, and variables: a list of pairs. */}}
{{- define "co.variables" -}}
{{- $names := list -}}
{{- range .own -}}{{- $names = append $names .name -}}{{- end -}}
{{- range .variables -}}
{{- if and (index . 1) (not (has (index . 0) $names)) }}
- { name: {{ index . 0 }}, value: {{ index . 1 | quote }} }
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Hosts that no process reaches by the proxy, beside those of proxy.noProxy. */}}
{{- define "co.noProxy" -}}
{{- join "," (concat .Values.proxy.noProxy (list "localhost" "127.0.0.1" "::1" ".svc" ".cluster.local")) -}}
{{- end -}}

{{- define "co.hasProxy" -}}
{{- if or .Values.proxy.https .Values.proxy.http -}}true{{- end -}}
{{- end -}}

{{/* trust.configMap, trust.secret, or empty where there is neither. */}}
{{- define "co.trustSource" -}}
{{- with .Values.trust -}}
{{- if and .configMap .secret -}}
{{- fail "only one of trust.configMap and trust.secret may be set" -}}
{{- end -}}
{{- .configMap | default .secret -}}
{{- end -}}
{{- end -}}

{{/*
Variables of both processes for what is outside of the cluster. A variable of `own`, the env of the process, comes instead. Takes a
dict of root and own.
*/}}
{{- define "co.outwardEnv" -}}
{{- $root := .root -}}
{{- $proxy := $root.Values.proxy -}}
{{- $variables := list (list "HTTPS_PROXY" $proxy.https) (list "HTTP_PROXY" $proxy.http) -}}
{{- if include "co.hasProxy" $root -}}
{{- /* The processes call the API server and sandboxes without a proxy anyway. */ -}}
{{- $variables = append $variables (list "NO_PROXY" (include "co.noProxy" $root)) -}}
{{- end -}}
{{- if include "co.trustSource" $root -}}
{{- $variables = append $variables (list "TRUST_FILE" "/etc/conversation-operator/trust/ca.crt") -}}
{{- end -}}
{{- include "co.variables" (dict "own" .own "variables" $variables) -}}
{{- end -}}

{{/* Variables of the operator about sandboxes, which have the same proxy and certificates. */}}
{{- define "co.sandboxOutwardEnv" -}}
{{- $proxy := .Values.proxy -}}
{{- $trust := .Values.trust -}}
{{- $variables := list (list "SANDBOX_HTTPS_PROXY" $proxy.https) (list "SANDBOX_HTTP_PROXY" $proxy.http) -}}
{{- if include "co.hasProxy" . -}}
{{- $variables = append $variables (list "SANDBOX_NO_PROXY" (include "co.noProxy" .)) -}}
{{- end -}}
{{- if include "co.trustSource" . -}}
{{- $variables = concat $variables (list (list "SANDBOX_TRUST_CONFIG_MAP" $trust.configMap) (list "SANDBOX_TRUST_SECRET" $trust.secret) (list "SANDBOX_TRUST_KEY" $trust.key)) -}}
{{- end -}}
{{- include "co.variables" (dict "own" .Values.operator.env "variables" $variables) -}}
{{- end -}}

{{- define "co.trustMount" -}}
{{- if include "co.trustSource" . }}
- { name: trust, mountPath: /etc/conversation-operator/trust, readOnly: true }
{{- end }}
{{- end -}}

{{/* Takes a dict of root and optional: whether the pod starts without the object. */}}
{{- define "co.trustVolume" -}}
{{- $optional := ternary ", optional: true" "" .optional -}}
{{- if include "co.trustSource" .root }}
{{- with .root.Values.trust }}
- name: trust
  {{- if .configMap }}
  configMap: { name: {{ .configMap | quote }}, items: [{ key: {{ .key | quote }}, path: ca.crt }]{{ $optional }} }
  {{- else }}
  secret: { secretName: {{ .secret | quote }}, defaultMode: 292, items: [{ key: {{ .key | quote }}, path: ca.crt }]{{ $optional }} }
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /*
The proxies, as egress of a NetworkPolicy. A policy has no names of hosts: a proxy with a name may be at any address that is not
closed. Takes a dict of root, closed: whether the pods may reach no public address, and named: whether another policy of the pods
opens the proxies that have names.
*/}}
{{- define "co.proxyEgress" -}}
{{- $root := .root -}}
{{- $closed := .closed -}}
{{- $named := .named -}}
{{- $policies := $root.Values.networkPolicies -}}
{{- range list $root.Values.proxy.https $root.Values.proxy.http | compact | uniq }}
{{- $url := urlParse . }}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) | int }}
{{- $host := regexReplaceAll ":[0-9]+$" $url.host "" }}
{{- $namespace := "" }}
{{- if regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host }}
{{- $namespace = index (splitList "." $host) 1 }}
{{- end }}
{{- $isAddress := or (regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host) (hasPrefix "[" $host) }}
{{- if or (not $named) $policies.proxy.to $namespace $isAddress }}
- to:
    {{- if $policies.proxy.to }}
    {{- toYaml $policies.proxy.to | nindent 4 }}
    {{- else if $namespace }}
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ $namespace | quote }} } }
    {{- else if regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host }}
    - ipBlock: { cidr: {{ $host }}/32 }
    {{- else if hasPrefix "[" $host }}
    - ipBlock: { cidr: '{{ $host | trimPrefix "[" | trimSuffix "]" }}/128' }
    {{- else }}
    {{- if not $closed }}
    {{- include "co.publicInternet" $policies | nindent 4 }}
    {{- end }}
    {{- if has (toString $port) (concat (list "80" "443") ($policies.apiServer.ports | toStrings)) }}
    {{- fail (printf "networkPolicies.proxy.to is needed, with the address of %s: a policy has no names, and at port %d sandboxes would reach more of private networks than the proxy" . $port) }}
    {{- end }}
    {{- include "co.privateNetworks" $root | nindent 4 }}
    {{- end }}
  {{- with $policies.proxy.ports | default (ternary (list) (list $port) (ne $namespace "")) }}
  ports:
    {{- range . }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The proxies that have names outside of the cluster, as host:port separated by spaces. */}}
{{- define "co.proxyNames" -}}
{{- range list .Values.proxy.https .Values.proxy.http | compact | uniq -}}
{{- $url := urlParse . -}}
{{- $host := regexReplaceAll ":[0-9]+$" $url.host "" -}}
{{- if not (or (regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host) (hasPrefix "[" $host) (regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host)) -}}
{{- printf "%s:%s " $host (regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
