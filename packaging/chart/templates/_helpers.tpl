{{- define "flowd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "flowd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "flowd.labels" -}}
{{ include "flowd.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What the pods of flowd and its workers have in common. */ -}}
{{- define "flowd.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
# longer than a drain, so that the kubelet does not kill a process that is draining
terminationGracePeriodSeconds: {{ add .Values.drainTimeoutSeconds 15 }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "flowd.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "flowd.volumes" -}}
{{- range .Values.secretMounts }}
- name: {{ printf "secret-%s" .secret | trunc 63 | trimSuffix "-" }}
  secret: {secretName: {{ .secret }}}
{{- end }}
{{- end }}

{{- define "flowd.mounts" -}}
{{- range .Values.secretMounts }}
- {name: {{ printf "secret-%s" .secret | trunc 63 | trimSuffix "-" }}, mountPath: {{ .path }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "flowd.token" -}}
- name: FLOWD_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.workers.tokenSecret.name }}, key: {{ .Values.workers.tokenSecret.key }}}}
{{- end }}
