import { TextFinder, type Found } from '@conversation-operator/base/text-finder';
import { isExactNumber } from './exact-json.ts';
import type { NamedSecret } from './redaction.ts';
import {
  maxApprovalText,
  maxApprovalTitle,
  maxApprovalTool,
  maxOptionLength,
  type ApprovalKind,
  type ApprovalOption,
} from '../resources/approval.ts';

/**
 * This file writes the text that asks a person to approve an action of an agent. REST, the page,
 * kubectl and Events show the same text. All functions are pure.
 */

export interface AskedCall {
  readonly tool: string | undefined;
  readonly kind: ApprovalKind;
  /** Arguments of the tool, as parsed JSON; undefined if the agent sends none. */
  readonly input: unknown;
  /** Description of the call by the model. The description may be false. */
  readonly words?: string | undefined;
}

export interface AskedCalls {
  /** Tool calls that run after an approval, in this order; empty if none could be read. */
  readonly calls: readonly AskedCall[];
  /** Whether `calls` has every tool call of the question, with complete arguments. */
  readonly isWhole: boolean;
  /** Reason why `isWhole` is false, as a clause: "the rest can not be shown". */
  readonly why?: string | undefined;
  /** Text with which the agent replaces each secret. The agent uses it for no other purpose. */
  readonly hidden?: string | undefined;
  /** Possible answers. Their names come from the agent. */
  readonly options?: readonly ApprovalOption[];
}

export interface QuestionText {
  /** The first call on one line, and the number of further calls. */
  readonly title: string;
  /** Names of the tools on one line. */
  readonly tool: string;
  /** All calls, or the beginning and the end of their text. */
  readonly summary: string;
  /** All calls if they do not fit into `summary`, else empty. */
  readonly text: string;
  /** Whether `text` (or `summary`, if `text` is empty) contains all calls. */
  readonly complete: boolean;
  /** The possible answers, each with a name on one line. */
  readonly options: ApprovalOption[];
}

/** Maximum characters of a summary, which then has at most 8 KiB: 3 bytes per character. */
const maxSummary = 2_600;
/**
 * Maximum characters that are rendered at each end of a text. A question shows fewer. Without this
 * limit, calls of many megabytes from a hostile agent would block the operator for minutes.
 */
const maxEnd = maxApprovalText;
/** Maximum arguments that get a line each. The text of a question has no room for more. */
const maxArguments = maxApprovalText / '\na: '.length;

/** The symbols ⏎ ⟨ ⟩ …, invisible characters, and characters that change the direction of text. */
const special = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800⏎⟨⟩…]/gu;
const specialOrBackslash = new RegExp(`\\\\|${special.source}`, special.flags);

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\r': '\\r' };

function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return escapes[character] ?? (code < 0x100 ? `\\x${hex.padStart(2, '0')}` : `\\u{${hex}}`);
}

/** Escapes a text. Each line feed becomes ⏎, a line feed and two spaces. */
const lines = (text: string): string =>
  text.replace(specialOrBackslash, (character) =>
    character === '\n' ? '⏎\n  ' : escapeOf(character),
  );

const line = (text: string): string => lines(text).replaceAll('⏎\n  ', '⏎');

/** A list of secrets to hide, all in plain text or all in the escaped form of JSON strings. */
class Hidden {
  readonly secrets: readonly NamedSecret[];
  readonly finder: TextFinder;
  readonly #longest: number;

  constructor(secrets: readonly NamedSecret[]) {
    this.secrets = secrets;
    this.finder = new TextFinder(secrets.map(({ value }) => value));
    this.#longest = secrets.reduce((longest, { value }) => Math.max(longest, value.length), 0);
  }

  /** Returns where the first shown part ends and the last begins, neither within a secret. */
  endsOf(text: string): readonly [number, number] {
    const from = text.length - maxEnd;
    const before = Math.max(0, from - this.#longest);
    const first = this.#around(text.slice(0, maxEnd + this.#longest), maxEnd);
    const last = this.#around(text.slice(before), from - before);
    return [first?.start ?? maxEnd, last === undefined ? from : before + last.end];
  }

  #around(text: string, at: number): Found | undefined {
    return this.finder.in(text).find(({ start, end }) => start < at && end > at);
  }
}

/** Replaces each secret, or a group of overlapping ones, by its name. `show` renders the rest. */
function hiding(text: string, { finder, secrets }: Hidden, show: (text: string) => string): string {
  let shown = '';
  let from = 0;
  for (const { start, end, index } of finder.in(text)) {
    const length = end - start;
    const { name = '', value = '' } = secrets[index] ?? {};
    const more = length === value.length ? '' : ` and others, ${length} characters`;
    shown += `${show(text.slice(from, start))}⟨secret${name === '' ? '' : ` ${line(name)}`}${more}⟩`;
    from = end;
  }
  return shown + show(text.slice(from));
}

/** Whether the value is an object with at most `maxArguments` arguments. */
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !isExactNumber(value) &&
  Object.keys(value).length <= maxArguments;

/** Action types that add nothing to the name of the tool. */
const actionKinds: ReadonlySet<unknown> = new Set(['FileEditorAction', 'MCPToolAction']);
const commandKinds: ReadonlySet<unknown> = new Set(['TerminalAction', 'ExecuteBashAction']);
/** Default arguments that OpenHands adds to each command. */
const commandDefaults: Readonly<Record<string, unknown>> = {
  is_input: false,
  reset: false,
  timeout: null,
};

/** The arguments without the type of the action and without the defaults of OpenHands. */
function withoutDefaults(input: unknown): unknown {
  if (!isObject(input)) return input;
  const { kind, ...others } = input;
  if (actionKinds.has(kind)) return others;
  if (!commandKinds.has(kind)) return input;
  const isDefault = ([name, value]: readonly [string, unknown]) =>
    Object.hasOwn(commandDefaults, name) && commandDefaults[name] === value;
  return Object.fromEntries(Object.entries(others).filter((entry) => !isDefault(entry)));
}

type Line = () => string;

/** Renders lines until their total length exceeds `maxLength` characters. */
function firstOf(rendered: Iterable<Line>, maxLength: number): readonly string[] {
  const shown: string[] = [];
  let length = 0;
  for (const each of rendered) {
    if (length > maxLength) break;
    const text = each();
    shown.push(text);
    length += text.length;
  }
  return shown;
}

/** Renders texts, names and values of calls, and hides the secrets in them. */
class Renderer {
  readonly #secrets: Hidden;
  readonly #inJson: Hidden;
  isTruncated = false;

  constructor(secrets: readonly NamedSecret[]) {
    this.#secrets = new Hidden(secrets);
    const inJson = (value: string) => JSON.stringify(value).slice(1, -1);
    this.#inJson = new Hidden(secrets.map(({ name, value }) => ({ name, value: inJson(value) })));
  }

  lines(text: string): string {
    return this.#ends(text, this.#secrets, lines);
  }

  line(text: string): string {
    return this.#ends(text, this.#secrets, line);
  }

  /** Renders the value as JSON. The backslashes of the JSON are not escaped again. */
  json(value: unknown): string {
    const text = JSON.stringify(value);
    return this.#ends(text, this.#inJson, (part) => part.replace(special, escapeOf));
  }

  /** Returns the whole text, or both ends of a long text with `notShown` between them. */
  #ends(text: string, hidden: Hidden, show: (text: string) => string): string {
    if (text.length <= 2 * maxEnd) return hiding(text, hidden, show);
    this.isTruncated = true;
    const [to, from] = hidden.endsOf(text);
    const [first, last] = [text.slice(0, to), text.slice(from)];
    return `${hiding(first, hidden, show)}${notShown(from - to)}${hiding(last, hidden, show)}`;
  }

  /**
   * The lines of one call, each rendered separately. An argument is `name: text` for a text, and
   * `name = JSON` for any other value. A name with special characters is written as JSON, so that
   * no name or value can imitate another argument.
   */
  call({ tool, input, words }: AskedCall, number: number, count: number): readonly Line[] {
    const head = `Call ${number} of ${count}`;
    const given = isObject(input) ? Object.entries(input) : [];
    return [
      () => (tool === undefined ? head : `${head}: ${this.lines(tool)}`),
      ...(words === undefined || words === ''
        ? []
        : [() => `Words of the model: ${this.lines(words)}`]),
      ...(given.length > 0
        ? given.map(
            ([name, value]) =>
              () =>
                this.#argument(/^[\w-]+$/.test(name) ? this.line(name) : this.json(name), value),
          )
        : [() => this.#argument('(input)', input)]),
    ];
  }

  /** Renders a call on one line. A command shows its text, and only names of other arguments. */
  title({ tool = 'tool', kind, input: given, words }: AskedCall): string {
    const input = withoutDefaults(given);
    if (typeof input === 'string') return this.line(input);
    if (input === undefined || input === null)
      return words === undefined || words.trim() === ''
        ? this.line(tool)
        : `Words of the model: ${this.line(words.trim())}`;
    const { command, ...others } = isObject(input) ? input : {};
    if (kind !== 'execute' || typeof command !== 'string' || command === '')
      return `${this.line(tool)} ${this.json(input)}`;
    const names = Object.keys(others);
    if (names.length === 0) return this.line(command);
    return `${this.line(command)} (with ${this.line(names.join(', '))})`;
  }

  #argument(name: string, value: unknown): string {
    if (value === undefined) return name;
    return typeof value === 'string'
      ? `${name}: ${this.lines(value)}`
      : `${name} = ${this.json(value)}`;
  }
}

/**
 * The texts of a question. The whole texts of two questions are equal only if their calls are
 * equal, except for the values of secrets.
 * @param secrets Non-empty values that no reader may see. Readers see the names of the secrets.
 */
export function questionTextOf(
  { calls, isWhole, why = 'the rest can not be shown', hidden, options = [] }: AskedCalls,
  secrets: readonly NamedSecret[],
): QuestionText {
  // `hidden` does not say which secret it replaces, so this entry has no name.
  const ofAgent = hidden === undefined ? [] : [{ name: '', value: hidden }];
  const renderer = new Renderer([...ofAgent, ...secrets]);
  const [first] = calls;
  const all = calls
    .flatMap((call, index) => renderer.call(call, index + 1, calls.length))
    .concat(isWhole ? [] : [() => `… ${why} …`]);
  const begun = firstOf(all, maxEnd);
  const last = firstOf(all.slice(begun.length).toReversed(), maxEnd).toReversed();
  const whole = [...begun, ...last].join('\n');
  const title = first === undefined ? 'Tool calls that can not be shown' : renderer.title(first);
  const more = calls.length < 2 ? '' : ` and ${calls.length - 1} more`;
  const names = [...new Set(calls.map(({ tool = 'tool' }) => tool))];
  const tools = firstOf(
    names.map((name) => () => renderer.line(name)),
    maxApprovalTool,
  );
  const isPart = renderer.isTruncated || begun.length + last.length < all.length;
  return {
    title: head(title, maxApprovalTitle - more.length, { isPart }) + more,
    tool: head([...new Set(tools)].join(', '), maxApprovalTool, {
      isPart: isPart || tools.length < names.length,
    }),
    summary: headAndTail(whole, maxSummary, { isPart }),
    text: whole.length <= maxSummary ? '' : headAndTail(whole, maxApprovalText, { isPart }),
    options: options.map((option) => ({
      ...option,
      name: head(renderer.line(option.name), maxOptionLength),
    })),
    complete: isWhole && !isPart && whole.length <= maxApprovalText,
  };
}

/** Text for omitted characters. With `isPart`, at least `count` characters are omitted. */
const notShown = (count: number, { isPart = false } = {}): string =>
  `… ${isPart ? 'more than ' : ''}${count} characters not shown …`;

const maxMark = notShown(Number.MAX_SAFE_INTEGER, { isPart: true }).length + 2;

/** Returns the beginning of a text, and `notShown` in place of an omitted rest. */
function head(text: string, maxLength: number, { isPart = false } = {}): string {
  if (text.length <= maxLength) return text;
  const kept = wholeCharacters(text.slice(0, maxLength - maxMark));
  return `${kept} ${notShown(text.length - kept.length, { isPart })}`;
}

/** Returns both ends of a text, and `notShown` in place of an omitted middle part. */
function headAndTail(text: string, maxLength: number, { isPart = false } = {}): string {
  if (text.length <= maxLength) return text;
  const room = maxLength - maxMark;
  const first = wholeCharacters(text.slice(0, Math.ceil(room * (2 / 3))));
  const last = wholeCharacters(text.slice(text.length - Math.floor(room / 3)));
  const mark = notShown(text.length - first.length - last.length, { isPart });
  return `${first}\n${mark}\n${last}`;
}

/** Removes halves of surrogate pairs, which `slice` may leave, from both ends. */
const wholeCharacters = (text: string): string =>
  text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
