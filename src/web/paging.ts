/** The `page_id` of the next page, which the header Link of an answer names. */
export function nextPageOf(link: string | null): string | undefined {
  const [, url = ''] = /<([^>]*)>\s*;\s*rel="next"/.exec(link ?? '') ?? [];
  return URL.canParse(url) ? (new URL(url).searchParams.get('page_id') ?? undefined) : undefined;
}
