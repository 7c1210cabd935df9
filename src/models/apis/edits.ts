import { type Member, membersAt } from './json-scan.ts';
import { ModelApi } from './model-api.ts';

/** JSON text of an object and its fields, found once. */
interface ObjectText {
  readonly text: string;
  readonly open: number;
  readonly members: readonly Member[];
}

/**
 * Adds `stream_options.include_usage` to a chat completion that streams, because its stream has no
 * usage otherwise. `text` is a body that `readCall` accepts; all else in it stays as it is.
 */
export function withUsageInStream(text: string): string {
  const body = objectAt(text, text.indexOf('{'));
  if (valueOf(body, 'stream') !== 'true') return text;
  const options = memberOf(body, ['stream_options']);
  if (options === undefined) return withField(body, 'stream_options', '{"include_usage":true}');
  return withField(objectAt(text, options.start), 'include_usage', 'true');
}

/**
 * Lowers the maximum of output tokens to `tokens`, or adds it where there is none: to a chat
 * completion as `added`, because models differ in which of the two they accept. A lower maximum
 * stays. `text` is a body that `readCall` accepts; all else in it stays as it is.
 */
export function withMaxOutput(
  api: ModelApi,
  text: string,
  tokens: number,
  added: 'max_tokens' | 'max_completion_tokens' = 'max_completion_tokens',
): string {
  const body = objectAt(text, text.indexOf('{'));
  switch (api) {
    case ModelApi.OpenAiChat: {
      const other = added === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
      if (memberOf(body, [other]) === undefined) return lowered(body, [added], tokens);
      const edited = lowered(body, [other], tokens);
      if (memberOf(body, [added]) === undefined) return edited;
      return lowered(objectAt(edited, body.open), [added], tokens);
    }
    case ModelApi.OpenAiResponses:
      return lowered(body, ['max_output_tokens'], tokens);
    case ModelApi.AnthropicMessages:
      return lowered(body, ['max_tokens'], tokens);
    case ModelApi.Gemini: {
      const config = memberOf(body, ['generationConfig', 'generation_config']);
      if (config === undefined) {
        const value = `{"maxOutputTokens":${String(tokens)}}`;
        return withField(body, fieldName(body, ['generationConfig', 'generation_config']), value);
      }
      const names = ['maxOutputTokens', 'max_output_tokens'];
      return lowered(objectAt(text, config.start), names, tokens);
    }
  }
}

/**
 * Names the maximum of a chat completion `max_tokens` where it is only `max_completion_tokens`,
 * which servers other than OpenAI's may ignore: DeepSeek then writes as much as it can. `text` is a
 * body that `readCall` accepts; all else in it stays as it is.
 */
export function withMaxTokens(text: string): string {
  const body = objectAt(text, text.indexOf('{'));
  const member = memberOf(body, ['max_completion_tokens']);
  if (member === undefined || memberOf(body, ['max_tokens']) !== undefined) return text;
  // A maximum that is null has to stay the only one of its name.
  if (body.members.some(({ name }) => name === 'max_tokens'))
    return withField(body, 'max_tokens', text.slice(member.start, member.end));
  return `${text.slice(0, member.nameStart)}"max_tokens"${text.slice(member.nameEnd)}`;
}

/** Lowers the field that has one of `names`, or adds it. */
function lowered(object: ObjectText, names: readonly string[], tokens: number): string {
  const member = memberOf(object, names);
  if (member !== undefined && Number(object.text.slice(member.start, member.end)) <= tokens)
    return object.text;
  return withField(object, fieldName(object, names), String(tokens));
}

/** The spelling of `names` that the object has already, even if only as null; else the first. */
const fieldName = ({ members }: ObjectText, names: readonly string[]): string =>
  members.find(({ name }) => names.includes(name))?.name ?? names[0] ?? '';

function withField({ text, open, members }: ObjectText, name: string, value: string): string {
  const member = members.find((each) => each.name === name);
  if (member !== undefined) return text.slice(0, member.start) + value + text.slice(member.end);
  const field = `${JSON.stringify(name)}:${value}${members.length === 0 ? '' : ','}`;
  return text.slice(0, open + 1) + field + text.slice(open + 1);
}

const objectAt = (text: string, open: number): ObjectText => ({
  text,
  open,
  members: membersAt(text, open),
});

/** The field that has one of `names`; undefined where it is absent or null. */
const memberOf = ({ text, members }: ObjectText, names: readonly string[]): Member | undefined =>
  members.find(({ name, start, end }) => names.includes(name) && text.slice(start, end) !== 'null');

function valueOf(object: ObjectText, name: string): string | undefined {
  const member = memberOf(object, [name]);
  return member === undefined ? undefined : object.text.slice(member.start, member.end);
}
