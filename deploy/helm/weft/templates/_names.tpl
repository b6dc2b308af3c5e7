{{- define "weft.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Of pods: none that changes with each version of the chart, which would start NATS servers again */}}
{{- define "weft.podLabels" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weft.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "weft.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* image: of values, or of a pool with its own */}}
{{- define "weft.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "weft.keysSecret" -}}
{{- .Values.keys.existingSecret | default (include "weft.name" .) -}}
{{- end -}}

{{- define "weft.natsSecret" -}}
{{- .Values.nats.existingSecret | default (printf "%s-nats" (include "weft.name" .)) -}}
{{- end -}}

{{- define "weft.storeVariable" -}}
{{- if eq .Values.store.type "postgres" }}DATABASE_URI{{ else }}MONGODB_URL{{ end -}}
{{- end -}}

{{- define "weft.storeSecret" -}}
{{- .Values.store.existingSecret | default (printf "%s-store" (include "weft.name" .)) -}}
{{- end -}}

{{/* host:port of each NATS server, separated by commas */}}
{{- define "weft.natsServers" -}}
{{- if .Values.nats.bundled -}}
{{- $name := printf "%s-nats" (include "weft.name" .) -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "%s-%d.%s:4222" $name $i $name) -}}
{{- end -}}
{{- join "," $servers -}}
{{- else -}}
{{- join "," .Values.nats.external.servers -}}
{{- end -}}
{{- end -}}

{{/* NATS_URL with a user, which may be a variable $(NAME) */}}
{{- define "weft.natsUrl" -}}
{{- $scheme := ternary "tls" "nats" .root.Values.nats.tls.enabled -}}
{{- $urls := list -}}
{{- range $i, $server := splitList "," (include "weft.natsServers" .root) -}}
{{- $urls = append $urls (ternary (printf "%s://%s@%s" $scheme $.user $server) (printf "%s://%s" $scheme $server) (eq $i 0)) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* What no schema can say */}}
{{- define "weft.check" -}}
{{- with .Values -}}
{{- if and (ne .store.type "sqlite") (not .store.url) (not .store.existingSecret) -}}
{{- fail (printf "store.url or store.existingSecret must name the database of store.type %s; an embedded store is store.type sqlite" .store.type) -}}
{{- end -}}
{{- if and (not .nats.bundled) (not .nats.external.servers) -}}
{{- fail "nats.external.servers must list your NATS servers (host:port), because nats.bundled is false" -}}
{{- end -}}
{{- if and (not .nats.bundled) (not .nats.existingSecret) -}}
{{- fail "nats.existingSecret must name a Secret with the users of your NATS servers: the output of weft nats init" -}}
{{- end -}}
{{- if and .nats.bundled .nats.tls.enabled (not .nats.tls.secret) -}}
{{- fail "nats.tls.secret must name a Secret with tls.crt, tls.key and ca.crt of the NATS servers" -}}
{{- end -}}
{{- if and .backup.enabled (ne .store.type "sqlite") (not .backup.image) -}}
{{- fail (printf "backup.image must name an image with %s of the version of your database" (ternary "pg_dump" "mongodump" (eq .store.type "postgres"))) -}}
{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs must name the Gateway" -}}
{{- end -}}
{{- end -}}
{{- end -}}
