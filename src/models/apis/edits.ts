import { type Member, membersAt } from './json-scan.ts';
import { ModelApi } from './model-api.ts';

/**
 * Adds `stream_options.include_usage` to a chat completion that streams, because its stream has no
 * usage otherwise. `text` is a body that `readCall` accepts; all else in it stays as it is.
 */
export function withUsageInStream(text: string): string {
  const body = text.indexOf('{');
  const stream = memberAt(text, body, ['stream']);
  if (stream === undefined || valueOf(text, stream) !== 'true') return text;
  const options = memberAt(text, body, ['stream_options']);
  if (options === undefined || valueOf(text, options) === 'null')
    return withField(text, body, 'stream_options', '{"include_usage":true}');
  return withField(text, options.start, 'include_usage', 'true');
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
  const body = text.indexOf('{');
  switch (api) {
    case ModelApi.OpenAiChat: {
      const names = ['max_tokens', 'max_completion_tokens'].filter((name) => {
        const member = memberAt(text, body, [name]);
        return member !== undefined && valueOf(text, member) !== 'null';
      });
      return (names.length === 0 ? [added] : names).reduce(
        (edited, name) => lowered(edited, body, [name], tokens),
        text,
      );
    }
    case ModelApi.OpenAiResponses:
      return lowered(text, body, ['max_output_tokens'], tokens);
    case ModelApi.AnthropicMessages:
      return lowered(text, body, ['max_tokens'], tokens);
    case ModelApi.Gemini: {
      const config = memberAt(text, body, ['generationConfig', 'generation_config']);
      if (config !== undefined && valueOf(text, config) !== 'null')
        return lowered(text, config.start, ['maxOutputTokens', 'max_output_tokens'], tokens);
      const field = config?.name ?? 'generationConfig';
      return withField(text, body, field, `{"maxOutputTokens":${String(tokens)}}`);
    }
  }
}

/** Lowers the field of the object at `open` that has one of `names`, or adds the first of them. */
function lowered(text: string, open: number, names: readonly string[], tokens: number): string {
  const member = memberAt(text, open, names);
  const current = member === undefined ? 'null' : valueOf(text, member);
  if (current !== 'null' && Number(current) <= tokens) return text;
  return withField(text, open, member?.name ?? names[0] ?? '', String(tokens));
}

function withField(text: string, open: number, name: string, value: string): string {
  const members = membersAt(text, open);
  const member = members.find((each) => each.name === name);
  if (member !== undefined) return text.slice(0, member.start) + value + text.slice(member.end);
  const field = `${JSON.stringify(name)}:${value}${members.length === 0 ? '' : ','}`;
  return text.slice(0, open + 1) + field + text.slice(open + 1);
}

const memberAt = (text: string, open: number, names: readonly string[]): Member | undefined =>
  membersAt(text, open).find(({ name }) => names.includes(name));

const valueOf = (text: string, { start, end }: Member): string => text.slice(start, end);
