// Helpers of every part of the page: elements, numbers in the report's format, copying, links into closed parts.

/** An element with properties and children. Text is never markup. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Text without control characters and marks of the reading direction. */
function plain(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** A measured number with about three significant digits. Integers stay integers. */
function measured(number) {
  const size = Math.abs(number);
  if (size >= 100 || Number.isInteger(number)) return Math.round(number).toLocaleString("en-US");
  if (size < 0.001) return number.toExponential(1);
  return number.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** A share of one as percent. Values that round to nothing or to everything, but are not, are marked. */
function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.05) return "<0.1 %";
  if (value >= 99.95 && value < 100) return ">99.9 %";
  return `${value.toFixed(1)} %`;
}

/** Nanoseconds in the best unit. */
function nanoseconds(count) {
  const units = ["ns", "µs", "ms", "s"];
  let unit = 0;
  while (Math.abs(count) >= 1000 && unit + 1 < units.length) {
    count /= 1000;
    unit += 1;
  }
  return `${measured(count)} ${units[unit]}`;
}

/** A button that copies a query. */
function copier(text) {
  const button = element("button", { type: "button", textContent: "copy" });
  button.addEventListener("click", async () => {
    let word = "copied";
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      word = "select it and copy by hand";
    }
    button.textContent = word;
    setTimeout(() => (button.textContent = "copy"), 2000);
  });
  return button;
}

for (const figure of document.querySelectorAll("details.sql figure")) {
  figure.firstElementChild.append(copier(() => figure.querySelector("code").textContent));
}

/** The address behind `#`. Wrong escapes stay as they are. */
function fragment() {
  const text = location.hash.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Opens closed parts around the target of a link. */
function reveal() {
  const target = document.getElementById(fragment());
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  // A row behind "more" is shown.
  if (target.classList.contains("folded")) target.closest(".scroll").parentElement.querySelector(".fold")?.click();
  target.scrollIntoView({ block: target.tagName === "SECTION" ? "start" : "nearest" });
}
addEventListener("hashchange", reveal);
reveal();

/** Scrolls code to its hottest row. A closed part has no rows to scroll to. */
function showHottest(part) {
  for (const pane of part.querySelectorAll(".pane")) {
    const row = document.getElementById(pane.querySelector(".hottest")?.hash.slice(1));
    if (row) pane.scrollTop = row.offsetTop - pane.offsetTop - pane.clientHeight / 3;
  }
}
for (const part of document.querySelectorAll(".code-of")) {
  showHottest(part);
  part.addEventListener("toggle", () => showHottest(part));
}

// The contents show the current section.
const entries = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
const watcher = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen) entries.get(target.id)?.classList.toggle("here", isIntersecting);
  },
  { rootMargin: "-10% 0px -70% 0px" },
);
document.querySelectorAll("main > section").forEach((section) => watcher.observe(section));

const DATA = JSON.parse(document.getElementById("data").textContent);
