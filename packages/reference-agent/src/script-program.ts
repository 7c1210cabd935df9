import { agentMessage, textOf, type AgentEvent } from '@conversation-operator/agent-server/events';
import { restartText } from '@conversation-operator/agent-server/drafts';
import { RunFailure, type Program, type Run } from '@conversation-operator/agent-server/program';
import type { Draft } from '@conversation-operator/agent-server/event-log';
import { parseJson } from '@conversation-operator/agent-server/json';
import { runTerminal, runTool } from '@conversation-operator/agent-server/tool-events';

/** A shell script, or a call of an MCP tool with its arguments in `code`. */
type CodeBlock =
  | { readonly shell: 'sh' | 'bash'; readonly code: string }
  | { readonly tool: string; readonly code: string };

const shells: Readonly<Record<string, 'sh' | 'bash'>> = {
  '': 'sh',
  sh: 'sh',
  shell: 'sh',
  bash: 'bash',
};
const opening = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const maxToolName = 200;

/**
 * Returns the fenced Markdown code blocks with the tag sh, shell or bash, without a tag, or with
 * `tool` and a name. Omits a block without a closing fence, because half a command can do harm.
 */
export function codeBlocksOf(markdown: string): readonly CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open:
    | {
        readonly fence: string;
        readonly tag: string;
        readonly name: string;
        readonly lines: string[];
      }
    | undefined;
  for (const line of markdown.split(/\r?\n/)) {
    if (open === undefined) {
      const match = opening.exec(line);
      if (match !== null) {
        const [tag = '', name = ''] = (match[2] ?? '').trim().split(/\s+/, 2);
        open = { fence: match[1] ?? '', tag: tag.toLowerCase(), name, lines: [] };
      }
    } else if (closes(line, open.fence)) {
      blocks.push(...blockOf(open));
      open = undefined;
    } else {
      open.lines.push(line);
    }
  }
  return blocks;
}

function blockOf({
  tag,
  name,
  lines,
}: {
  readonly tag: string;
  readonly name: string;
  readonly lines: readonly string[];
}): readonly CodeBlock[] {
  const code = lines.join('\n');
  if (tag === 'tool') return name === '' || name.length > maxToolName ? [] : [{ tool: name, code }];
  const shell = shells[tag];
  return shell === undefined || code.trim() === '' ? [] : [{ shell, code }];
}

/** Whether a line closes a fence: it consists of the fence's characters, at least as many. */
function closes(line: string, fence: string): boolean {
  const text = line.trim();
  return (
    /^ {0,3}\S/.test(line) &&
    text.length >= fence.length &&
    text === fence.charAt(0).repeat(text.length)
  );
}

const blockTimeoutSeconds = 600;

/** Exit code that stands for a failed tool call. */
const failedCall = 1;

/** Exit code of a code block; `lost`: the agent ended during the block; undefined: interrupted. */
type Outcome = number | 'rejected' | 'lost' | undefined;
type Outcomes = Map<number, Outcome>;

const isLost = (outcome: Outcome): boolean => outcome === 'lost';
const isFailed = (outcome: Outcome): boolean => outcome !== 'lost' && (outcome ?? 0) !== 0;

/**
 * Announces that there is no model, and runs the code blocks of each message in order, each in its
 * own shell or as a tool call. Stops at the first block that fails, because later blocks usually
 * depend on it, and lists the rest. A block is lost if the agent ends while it runs. An interrupted
 * or lost block never runs again, but the next blocks run. A lost block ends the run with an error.
 */
export const scriptProgram: Program = {
  work: async (run) => {
    for (
      let [position] = run.pendingMessages();
      position !== undefined;
      [position] = run.pendingMessages()
    ) {
      run.checkpoint();
      await handleMessage(run, position);
    }
  },
};

async function handleMessage(run: Run, position: number): Promise<void> {
  const [message] = await run.log.read(run.log.entries.slice(position, position + 1));
  const text = message?.kind === 'MessageEvent' ? textOf(message.llm_message.content) : '';
  const blocks = codeBlocksOf(text);
  if (message === undefined || blocks.length === 0) {
    await run.append({
      event: agentMessage(`${noModel} I can only run shell code blocks, and the message has none.`),
      handledThrough: position + 1,
    });
    return;
  }
  const outcomes = await outcomesOf(run, message.id);
  for (const [index, block] of blocks.entries()) {
    if (!outcomes.has(index)) {
      run.checkpoint();
      const kind = blocks.some((each) => 'tool' in each) ? 'code' : 'shell code';
      const place = { index, block, count: blocks.length, kind };
      outcomes.set(index, await runBlock(run, message.id, place));
    }
    if (isFailed(outcomes.get(index))) break;
  }
  const last = { event: agentMessage(summaryOf(blocks, outcomes)), handledThrough: position + 1 };
  const lost = numbersOf(outcomes, isLost);
  // An error for a lost code block ends the run only if no further message is pending.
  if (lost.length === 0 || run.pendingMessages().length > 1) await run.append(last);
  else throw lostBlocks(lost, last);
}

const numbersOf = (outcomes: Outcomes, isMeant: (outcome: Outcome) => boolean): number[] =>
  [...outcomes].flatMap(([index, outcome]) => (isMeant(outcome) ? [index + 1] : []));

const lostBlocks = (numbers: readonly number[], last: Draft): RunFailure =>
  new RunFailure(
    'BlockLost',
    `Code block ${numbers.join(', ')} ended with the container of the agent, and may have been executed in part. I do not repeat it: check its effects, and send what is still to be done.`,
    {
      classification: { kind: 'agent_action', retryable: true, user_action: 'retry' },
      last: [last],
    },
  );

const noModel = 'No model is configured.';

const callIdOf = (messageId: string, index: number): string => `call-${messageId}-${index}`;

async function runBlock(
  run: Run,
  messageId: string,
  {
    index,
    block,
    count,
    kind,
  }: {
    readonly index: number;
    readonly block: CodeBlock;
    readonly count: number;
    readonly kind: string;
  },
): Promise<number> {
  const call = {
    toolCallId: callIdOf(messageId, index),
    responseId: `script-${messageId}-${index}`,
    thought: `Code block ${index + 1} of ${count}.`,
  };
  const plan = `${noModel} I run the ${count === 1 ? `${kind} block` : `${count} ${kind} blocks`} of the message in ${run.workingDir}.`;
  const before = index === 0 ? [{ event: agentMessage(plan) }] : [];
  if ('tool' in block) {
    const given = argumentsOf(block.code);
    const hasFailed = await runTool(run, { ...call, name: block.tool, given }, { before });
    return hasFailed ? failedCall : 0;
  }
  const { code: command, shell } = block;
  const terminal = { ...call, command, shell, timeoutSeconds: blockTimeoutSeconds };
  return runTerminal(run, terminal, { before });
}

/** Returns the arguments of a tool call; undefined if the text is neither empty nor an object. */
function argumentsOf(code: string): Readonly<Record<string, unknown>> | undefined {
  if (code.trim() === '') return {};
  const given = parseJson(code);
  return typeof given === 'object' && given !== null && !Array.isArray(given)
    ? { ...given }
    : undefined;
}

/** Reads the outcomes of a message's blocks from the log, even from before an agent's restart. */
async function outcomesOf(run: Run, messageId: string): Promise<Outcomes> {
  const prefix = callIdOf(messageId, 0).slice(0, -1);
  const outcomes: Outcomes = new Map();
  for (const event of await run.log.read(
    run.log.entries.filter(({ toolCallId }) => toolCallId?.startsWith(prefix)),
  )) {
    const index = 'tool_call_id' in event ? Number(event.tool_call_id.slice(prefix.length)) : NaN;
    outcomes.set(index, outcomeOf(event));
  }
  return outcomes;
}

function outcomeOf(event: AgentEvent): Outcome {
  if (event.kind === 'UserRejectObservation') return 'rejected';
  if (event.kind === 'AgentErrorEvent') return event.error === restartText ? 'lost' : undefined;
  if (event.kind !== 'ObservationEvent') return undefined;
  const { observation } = event;
  if (observation.kind === 'MCPToolObservation') return observation.is_error ? failedCall : 0;
  return observation.kind === 'TerminalObservation' ? observation.exit_code : undefined;
}

const callOutcome = (exitCode: number): string => (exitCode === 0 ? 'succeeded' : 'failed');

function summaryOf(blocks: readonly CodeBlock[], outcomes: Outcomes): string {
  const lines = blocks.map((block, index) => {
    const isTool = 'tool' in block;
    const firstLine = isTool ? `tool ${block.tool}` : (block.code.trim().split('\n', 1)[0] ?? '');
    const exitCode = outcomes.get(index);
    const outcome = !outcomes.has(index)
      ? 'not run'
      : exitCode === undefined
        ? 'interrupted'
        : exitCode === 'rejected' || exitCode === 'lost'
          ? exitCode
          : isTool
            ? callOutcome(exitCode)
            : `exit code ${exitCode}`;
    return `${index + 1}. \`${firstLine.slice(0, 80)}\`: ${outcome}`;
  });
  const failed = [...outcomes].find(([, exitCode]) => isFailed(exitCode));
  const lost = numbersOf(outcomes, isLost);
  const allEnded = [...outcomes.values()].every((exitCode) => typeof exitCode === 'number');
  const end =
    failed !== undefined
      ? `Block ${failed[0] + 1} ${failed[1] === 'rejected' ? 'was rejected' : 'failed'}, so I stopped there.`
      : lost.length > 0
        ? `Block ${lost.join(', ')} was lost with the container of the agent, and is not repeated.`
        : `All blocks ${allEnded ? '' : 'that were not interrupted '}succeeded.`;
  return `${end}\n\n${lines.join('\n')}`;
}
