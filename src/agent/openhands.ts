import type { AgentContainer, AgentContainerOptions, AgentKindDefinition } from './agent.ts';
import { OpenHandsClient } from './openhands-client.ts';

/** Time that an agent needs to start if its image is on the node, rounded up. */
const quietBootSeconds = 20;

function container({
  port,
  workingDir,
  stateDir,
  bootstrapKey,
}: AgentContainerOptions): AgentContainer {
  return {
    env: [
      // The agent gets its keys by the `initialise` call, so that they are not in the pod.
      { name: 'OH_DEFERRED_INIT', value: 'true' },
      { name: 'OH_SECRET_KEY', value: bootstrapKey },
      { name: 'OH_CONVERSATIONS_PATH', value: `${stateDir}/conversations` },
      { name: 'OH_BASH_EVENTS_DIR', value: `${stateDir}/bash-events` },
      // The operator runs one pod per volume, so the agent's lease would only delay a resume.
      { name: 'OH_LEASE_TTL_SECONDS', value: '0' },
      { name: 'OH_ENABLE_VSCODE', value: 'false' },
      { name: 'OH_PRELOAD_TOOLS', value: 'false' },
      { name: 'HOME', value: workingDir },
      // The agent exports secrets in an interactive shell. A history file would store their values.
      { name: 'HISTFILE', value: '' },
      // The timestamps of the agent's events have no zone.
      { name: 'TZ', value: 'UTC' },
    ],
    // On a busy node the agent takes minutes to start. A liveness probe during that time would kill
    // the agent. The template's `startDeadline` ends a start before these probes fail.
    startupProbe: {
      httpGet: { path: '/ready', port },
      // The kubelet writes an Event `Unhealthy` for each failed probe, even while the agent starts.
      // The delay slows no start: the operator calls the agent as soon as its container runs, and
      // nothing waits for the pod to be ready.
      initialDelaySeconds: quietBootSeconds,
      periodSeconds: 2,
      timeoutSeconds: 5,
      failureThreshold: 900,
    },
    readinessProbe: { httpGet: { path: '/ready', port }, periodSeconds: 5, timeoutSeconds: 5 },
    // The time-out is long, as the agent blocks for seconds while it renders a traceback.
    livenessProbe: {
      httpGet: { path: '/alive', port },
      periodSeconds: 20,
      timeoutSeconds: 10,
      failureThreshold: 3,
    },
  };
}

/** Definition of openhands-agent-server and of the reference agent. */
export const openhands: AgentKindDefinition = {
  defaultPort: 8000,
  createClient: () => new OpenHandsClient(),
  keepsQuestions: false,
  container,
};
