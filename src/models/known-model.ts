import { calcPrice, findProvider, type MatchLogic, type Provider } from '@pydantic/genai-prices';
import type { KnownModel } from './model-price.ts';

/** Names of providers in front of a model's name, as LiteLLM writes them, by those of the library. */
const providerNames: ReadonlyMap<string, string> = new Map([
  ['bedrock', 'aws'],
  ['fireworks_ai', 'fireworks'],
  ['gemini', 'google'],
  ['moonshot', 'moonshotai'],
  ['together_ai', 'together'],
  ['vertex_ai', 'google'],
  ['xai', 'x-ai'],
]);

/** A snapshot of a model, which costs as much as the model: a date, a version, or `latest`. */
const version = String.raw`[-@](?:latest|preview|exp|default|20\d\d-?\d\d-?\d\d|\d\d-\d\d(?:\d\d)?|\d{3,4}|v\d)`;
const versions = new RegExp(`^(?:${version})*(?::\\d)?$`);
/** Bedrock puts a region and the vendor in front. */
const bedrockPrefix = /^(?:(?:global|us|eu|au|apac|jp|in|us-gov)\.)?(?:[a-z0-9]+\.)?$/;

/** Whether a name is `beginning` with a version behind it, or nothing. */
function isVersionOf(name: string, beginning: string): boolean {
  if (name.startsWith(beginning) && versions.test(name.slice(beginning.length))) return true;
  // The library writes some beginnings up to the middle of a version: `gpt-5-nano-`.
  const whole = beginning.replace(/[-@](?:0|20\d\d)?$/, '');
  return (
    whole !== beginning && name.startsWith(beginning) && versions.test(name.slice(whole.length))
  );
}

/**
 * Whether a name that the library has matched is a model that its list names, and not another one
 * that only has a part of this name: the library finds `my-claude-opus-4-6` and
 * `claude-sonnet-4-5-ultra`.
 */
function isNamedBy(match: MatchLogic, name: string): boolean {
  if ('or' in match) return match.or.some((each) => isNamedBy(each, name));
  // The other conditions hold already: they exclude names.
  if ('and' in match) return match.and.some((each) => isNamedBy(each, name));
  if ('equals' in match) return name === match.equals.toLowerCase();
  if ('starts_with' in match) return isVersionOf(name, match.starts_with.toLowerCase());
  if ('regex' in match)
    return /^\^.*\$$/.test(match.regex) && new RegExp(match.regex, 'i').test(name);
  const part = ('contains' in match ? match.contains : match.ends_with).toLowerCase();
  const at = name.indexOf(part);
  return at >= 0 && bedrockPrefix.test(name.slice(0, at)) && isVersionOf(name.slice(at), part);
}

const dashed = (name: string): string =>
  name.replace(/-(20\d\d)([01]\d)([0-3]\d)(?=[-:]|$)/, '-$1-$2-$3');

function modelOf(name: string, provider: Provider): KnownModel | undefined {
  const model = calcPrice({}, name, { provider })?.model;
  const isNamed =
    model !== undefined && (isNamedBy(model.match, name) || isNamedBy(model.match, dashed(name)));
  return isNamed ? { name, provider, model } : undefined;
}

function providerOf(name: string): Provider | undefined {
  const id = providerNames.get(name) ?? name;
  const provider = findProvider({ providerId: id });
  // The library also finds providers of which a text contains the name.
  return provider?.id === id ? provider : undefined;
}

/**
 * The model of the library with this name. The provider is the one at the base URL. Where the library
 * does not know the URL, for example of a LiteLLM proxy, the provider is the one in front of the first
 * slash, or else the one that makes models of such names.
 *
 * A name counts as it is in the library's list, with a date, a version or `latest` behind it where
 * the list leaves that open, and with the provider or `models/` before it. Every other name is
 * unknown, also that of a fine-tuned model (`ft:…`), because its price may be another.
 */
export function knownModelOf(model: string, baseUrl: string | undefined): KnownModel | undefined {
  const name = model
    .trim()
    .toLowerCase()
    .replace(/^models\//, '');
  if (/(?:^|\/)ft:|\.ft-/.test(name)) return undefined;
  const slash = name.indexOf('/');
  const named = slash > 0 ? providerOf(name.slice(0, slash)) : undefined;
  const rest = name.slice(slash + 1);
  const host = baseUrl === undefined ? undefined : findProvider({ providerApiUrl: baseUrl });
  if (host !== undefined)
    return modelOf(name, host) ?? (named?.id === host.id ? modelOf(rest, host) : undefined);
  if (slash > 0) return named === undefined ? undefined : modelOf(rest, named);
  const maker = findProvider({ modelId: name });
  return maker === undefined ? undefined : modelOf(name, maker);
}
