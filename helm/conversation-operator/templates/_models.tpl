{{- /* Variables of the process that serves the relay for models. */}}
{{- define "co.modelsEnv" -}}
{{- if .Values.agentCredentials.existingSecret }}
- { name: AGENT_CREDENTIALS_DIR, value: /etc/conversation-operator/agent-credentials }
{{- end }}
{{- with .Values.models.prices }}
- { name: MODELS_PRICES, value: {{ toJson . | quote }} }
{{- end }}
{{- if .Values.models.limits }}
- { name: MODELS_LIMITS, value: {{ include "co.modelsLimits" . | quote }} }
{{- end }}
{{- end -}}

{{- /*
Where the relay reaches models: authorities of the base URLs in the chart's templates, and of the vendors where a template has none.
api.openai.com:443 vllm.models.svc:8000. Templates of other origin: extraEgress and Cilium's hosts of the gateway or of the relay.
*/}}
{{- define "co.modelAuthorities" -}}
{{- $vendors := dict "openai" "api.openai.com" "anthropic" "api.anthropic.com" "gemini" "generativelanguage.googleapis.com" -}}
{{- $ofAgents := dict "codex" "openai" "qwen" "openai" "kimi" "openai" "claude" "anthropic" "gemini" "gemini" -}}
{{- $agents := list (dict "name" "" "agent" .Values.defaultTemplate.agent) -}}
{{- range $name, $values := .Values.agents -}}
{{- if $values.enabled -}}
{{- $agents = append $agents (dict "name" $name "agent" $values.agent) -}}
{{- end -}}
{{- end -}}
{{- $authorities := list -}}
{{- range $agents -}}
{{- if .agent.baseUrl -}}
{{- $authorities = append $authorities (include "co.authority" .agent.baseUrl) -}}
{{- else -}}
{{- $providers := list (get $ofAgents .name) -}}
{{- if not .name -}}
{{- range prepend (default list .agent.allowedModels) .agent.model -}}
{{- $providers = append $providers (splitList "/" (default "" .) | first) -}}
{{- end -}}
{{- end -}}
{{- range $providers | compact -}}
{{- with get $vendors . -}}
{{- $authorities = append $authorities (printf "%s:443" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join " " ($authorities | uniq) -}}
{{- end -}}

{{- /* Those that have a place in the cluster, or an address, as egress of a NetworkPolicy. */}}
{{- define "co.modelEgress" -}}
{{- range include "co.modelAuthorities" . | splitList " " | compact }}
{{- $host := regexReplaceAll ":[0-9]+$" . "" }}
{{- if regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host }}
# The Service of a model, whose pods may have another port.
- to:
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ index (splitList "." $host) 1 | quote }} } }
{{- else if or (regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host) (hasPrefix "[" $host) }}
- to: [{ ipBlock: { cidr: '{{ $host | trimPrefix "[" | trimSuffix "]" }}/{{ ternary "128" "32" (hasPrefix "[" $host) }}' } }]
  ports: [{ port: {{ regexFind "[0-9]+$" . }}, protocol: TCP }]
{{- end }}
{{- end }}
{{- end -}}

{{- /* Those that have a public name. */}}
{{- define "co.modelNames" -}}
{{- range include "co.modelAuthorities" . | splitList " " | compact -}}
{{- $host := regexReplaceAll ":[0-9]+$" . "" -}}
{{- if not (or (regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host) (hasPrefix "[" $host) (regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host)) -}}
{{- printf "%s " . -}}
{{- end -}}
{{- end -}}
{{- end -}}
