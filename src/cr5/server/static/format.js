// Numbers, lists and titles as text.

const number = new Intl.NumberFormat("en");

export const formatCount = (count) => number.format(count);
export const formatPercent = (share) => `${Math.round(share * 100)}\u00a0%`;
export const formatSigned = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
export const pluralise = (count, singular) => `${formatCount(count)} ${count === 1 ? singular : `${singular}s`}`;
export const formatList = (items, type = "conjunction") => new Intl.ListFormat("en-GB", { type }).format(items);
export const titleOf = (item) => item.title?.trim() || item.concept || item.id;
