import { randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import type { CommandResult } from './commands.ts';
import type { Draft } from './event-log.ts';
import {
  textContent,
  type ActionEvent,
  type AgentEvent,
  type EventBody,
  type ObservationEvent,
} from './events.ts';
import type { CommandRequest, Run } from './program.ts';

export interface TerminalCall extends CommandRequest {
  readonly toolCallId: string;
  readonly responseId: string;
  readonly thought: string;
}

/** Returns the event of a tool call. `action` is null for a call with invalid arguments. */
export const actionEvent = (
  tool: string,
  { toolCallId, responseId, thought }: Pick<TerminalCall, 'toolCallId' | 'responseId' | 'thought'>,
  given: unknown,
  action: ActionEvent['action'],
): ActionEvent => ({
  kind: 'ActionEvent',
  source: 'agent',
  thought: thought === '' ? [] : textContent(thought),
  action,
  tool_name: tool,
  tool_call_id: toolCallId,
  tool_call: {
    id: toolCallId,
    name: tool,
    arguments: JSON.stringify(given ?? {}),
    origin: 'completion',
  },
  llm_response_id: responseId,
  security_risk: 'UNKNOWN',
});

export const observationEvent = (
  tool_name: string,
  tool_call_id: string,
  action_id: string,
  observation: ObservationEvent['observation'],
): ObservationEvent => ({
  kind: 'ObservationEvent',
  source: 'environment',
  ...{ action_id, tool_name, tool_call_id, observation },
});

export const terminalAction = (call: TerminalCall): EventBody => {
  const { command, shell, timeoutSeconds: timeout } = call;
  const action = {
    kind: 'TerminalAction',
    command,
    is_input: false,
    timeout,
    reset: false,
  } as const;
  return {
    ...actionEvent('terminal', call, { command, timeout, shell }, action),
    summary: command.trim().split('\n', 1)[0]?.slice(0, 100) ?? '',
  };
};

export const terminalObservation = (
  { toolCallId, command }: Pick<TerminalCall, 'toolCallId' | 'command'>,
  actionId: string,
  workingDir: string,
  { stdout, stderr, exitCode, timedOut }: CommandResult,
): EventBody =>
  observationEvent('terminal', toolCallId, actionId, {
    kind: 'TerminalObservation',
    command,
    content: textContent(stdout + stderr),
    exit_code: exitCode,
    is_error: exitCode !== 0,
    timeout: timedOut,
    metadata: { exit_code: exitCode, working_dir: workingDir },
  });

/** Records the call with other events, runs its command, and records the result. */
export async function runTerminal(
  run: Run,
  call: TerminalCall,
  drafts: { readonly before?: readonly Draft[]; readonly after?: readonly Draft[] } = {},
): Promise<number> {
  const id = randomUUID();
  const { before = [], after = [] } = drafts;
  await run.append(...before, { id, event: terminalAction(call) }, ...after);
  run.confirm();
  return complete(run, call, id);
}

async function complete(
  run: Run,
  call: Pick<TerminalCall, 'toolCallId' | keyof CommandRequest>,
  actionId: string,
): Promise<number> {
  const { command, shell, timeoutSeconds } = call;
  const request = { command, timeoutSeconds };
  const result = await run.execute(shell === undefined ? request : { ...request, shell });
  await run.append({ event: terminalObservation(call, actionId, run.workingDir, result) });
  return result.exitCode;
}

const storedArguments = z.object({ shell: z.optional(z.enum(['sh', 'bash'])) });

/** Runs the command of a call that is in the log and has no result yet. */
export async function runConfirmed(run: Run, event: AgentEvent & ActionEvent): Promise<void> {
  const { id, action, tool_call_id: toolCallId, tool_call } = event;
  if (action?.kind !== 'TerminalAction') return;
  const { command, timeout: timeoutSeconds } = action;
  const { shell } = storedArguments.parse(JSON.parse(tool_call.arguments));
  await complete(run, { toolCallId, command, shell, timeoutSeconds }, id);
}
