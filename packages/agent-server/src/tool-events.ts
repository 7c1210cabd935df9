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
import type { McpResult } from './mcp-tools.ts';
import type { CommandRequest, Run } from './program.ts';

export interface TerminalCall extends CommandRequest {
  readonly toolCallId: string;
  readonly responseId: string;
  readonly thought: string;
}

/** Returns the event of a tool call. `action` is null for invalid arguments. */
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
  action_id,
  tool_name,
  tool_call_id,
  observation,
});

/** Returns the first line, truncated to 100 characters, with an ellipsis for omitted text. */
function summaryOf(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  // Removes half of a surrogate pair at the end.
  const beginning = line.slice(0, 100).replace(/[\uD800-\uDBFF]$/, '');
  return beginning === text ? text : `${beginning}…`;
}

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
    summary: summaryOf(command.trim()),
  };
};

export interface ToolCall extends Pick<TerminalCall, 'toolCallId' | 'responseId' | 'thought'> {
  readonly name: string;
  /** Undefined if the arguments are no JSON object. The tool is then not called. */
  readonly given: Readonly<Record<string, unknown>> | undefined;
}

const toolAction = (call: ToolCall): EventBody => {
  const { name, given } = call;
  const action = given === undefined ? null : ({ kind: 'MCPToolAction', data: given } as const);
  return { ...actionEvent(name, call, given, action), summary: summaryOf(name) };
};

const toolObservation = (
  { name, toolCallId }: Pick<ToolCall, 'name' | 'toolCallId'>,
  actionId: string,
  { text, isError }: McpResult,
): EventBody =>
  observationEvent(name, toolCallId, actionId, {
    kind: 'MCPToolObservation',
    tool_name: name,
    content: textContent(text),
    is_error: isError,
  });

/** Records the call and `drafts`, calls the tool, and records the result. True for a failure. */
export async function runTool(
  run: Run,
  call: ToolCall,
  drafts: { readonly before?: readonly Draft[]; readonly after?: readonly Draft[] } = {},
): Promise<boolean> {
  const id = randomUUID();
  const { before = [], after = [] } = drafts;
  const { name, given } = call;
  const action = { id, event: toolAction(call) };
  if (given === undefined) {
    const text = `The arguments of the tool ${name} are not a JSON object.`;
    const failure = { event: toolObservation(call, id, { text, isError: true }) };
    await run.append(...before, action, failure, ...after);
    return true;
  }
  await run.append(...before, action, ...after);
  run.confirm();
  return completeTool(run, { ...call, given }, id);
}

async function completeTool(
  run: Run,
  call: Pick<ToolCall, 'name' | 'toolCallId'> & {
    readonly given: Readonly<Record<string, unknown>>;
  },
  actionId: string,
): Promise<boolean> {
  const result = await run.callTool({ name: call.name, arguments: call.given });
  await run.append({ event: toolObservation(call, actionId, result) });
  return result.isError;
}

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

/** Records the call and `drafts`, runs its command, and records the result. */
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
  const { command, shell, timeoutSeconds, toolCallId } = call;
  const request = { command, timeoutSeconds };
  const result = await run.execute(
    shell === undefined ? request : { ...request, shell },
    toolCallId,
  );
  await run.append({ event: terminalObservation(call, actionId, run.workingDir, result) });
  return result.exitCode;
}

const storedArguments = z.object({ shell: z.optional(z.enum(['sh', 'bash'])) });

/** Runs the command or tool of a call that is in the log and has no result yet. */
export async function runConfirmed(run: Run, event: AgentEvent & ActionEvent): Promise<void> {
  const { id, action, tool_call_id: toolCallId, tool_call, tool_name: name } = event;
  if (action?.kind === 'MCPToolAction') {
    await completeTool(run, { name, toolCallId, given: action.data }, id);
    return;
  }
  if (action?.kind !== 'TerminalAction') return;
  const { command, timeout: timeoutSeconds } = action;
  const { shell } = storedArguments.parse(JSON.parse(tool_call.arguments));
  await complete(run, { toolCallId, command, shell, timeoutSeconds }, id);
}
