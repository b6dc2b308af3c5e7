{{- define "weft.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "weft.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "weft.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end -}}

{{/*
A Deployment of a role, and its PodDisruptionBudget. name: of the objects; args, env, envFrom, resources; replicas: none where
an autoscaler decides; isEdge; claim: of the data folder, which one pod at a time has.
*/}}
{{- define "weft.workload" -}}
{{- $values := .root.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels: {{- include "weft.labels" .root | nindent 4 }}
spec:
  {{- if not .isScaled }}
  replicas: {{ .replicas }}
  {{- end }}
  selector: { matchLabels: { app: {{ .name }} } }
  minReadySeconds: 5
  {{- if .claim }}
  # Two processes never open one embedded store.
  strategy: { type: Recreate }
  {{- else }}
  strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }
  {{- end }}
  template:
    metadata:
      labels:
        app: {{ .name }}
        weft: role
        {{- include "weft.podLabels" .root | nindent 8 }}
      annotations:
        # Pods start again with changed settings.
        checksum/settings: {{ include "weft.settings" .root | sha256sum }}
    spec:
      automountServiceAccountToken: false
      # Longer than the drain and WEFT_STOP_MS together.
      terminationGracePeriodSeconds: {{ add $values.stopSeconds $values.drainSeconds 10 }}
      securityContext: {{- include "weft.podSecurity" .root | nindent 8 }}
      {{- include "weft.placement" .root | indent 6 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: { matchLabels: { app: {{ .name }} } }
      containers:
        - name: weft
          image: {{ .image | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args: {{ toJson .args }}
          envFrom:
            - configMapRef: { name: {{ include "weft.name" .root }}-settings }
            {{- with .envFrom }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env: {{- toYaml .env | nindent 12 }}
          {{- if .isEdge }}
          ports:
            - { name: http, containerPort: 2024 }
          # For this edge alone: /ready judges the cluster, and is for alerts.
          readinessProbe: { httpGet: { path: '/ready?self=1', port: http }, periodSeconds: 2, failureThreshold: 2 }
          livenessProbe: { httpGet: { path: /ok, port: http }, periodSeconds: 10, failureThreshold: 6 }
          {{- else }}
          readinessProbe: { httpGet: { path: /ready, port: {{ $values.healthPort }} }, periodSeconds: 2, failureThreshold: 2 }
          livenessProbe: { httpGet: { path: /live, port: {{ $values.healthPort }} }, periodSeconds: 10, failureThreshold: 6 }
          {{- end }}
          resources: {{- toYaml .resources | nindent 12 }}
          securityContext: {{- include "weft.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            - { name: data, mountPath: /data }
            - { name: temporary, mountPath: /tmp }
            - { name: home, mountPath: /home/weft }
            {{- if $values.nats.tls.secret }}
            - { name: nats-ca, mountPath: /etc/nats-ca, readOnly: true }
            {{- end }}
      volumes:
        {{- if .claim }}
        - { name: data, persistentVolumeClaim: { claimName: {{ .claim }} } }
        {{- else }}
        - { name: data, emptyDir: {} }
        {{- end }}
        - { name: temporary, emptyDir: {} }
        - { name: home, emptyDir: {} }
        {{- with $values.nats.tls.secret }}
        # The certificate alone, not the key of the servers.
        - { name: nats-ca, secret: { secretName: {{ . }}, items: [{ key: ca.crt, path: ca.crt }] } }
        {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{- include "weft.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector: { matchLabels: { app: {{ .name }} } }
{{- end -}}

{{/* A HorizontalPodAutoscaler by CPU: root, name, autoscaling */}}
{{- define "weft.cpuScaling" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  labels: {{- include "weft.labels" .root | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ .name }} }
  minReplicas: {{ .autoscaling.min }}
  maxReplicas: {{ .autoscaling.max }}
  metrics:
    - type: Resource
      resource: { name: cpu, target: { type: Utilization, averageUtilization: {{ .autoscaling.cpu }} } }
{{- end -}}
