// Checks of a page that run in the page itself: a list of complaints.
(() => {
  const wrong = [];
  const expect = (is, what) => is || wrong.push(what);
  const all = (selector) => [...document.querySelectorAll(selector)];
  expect(document.querySelector("main > section")?.id === "verdict", "the verdict is not the first section");
  // A comparison ends with the facts that decide whether its captures are comparable.
  const last = [...document.querySelectorAll("main > section")].pop()?.id;
  expect(["coverage", "facts"].includes(last), "coverage is not the last section");
  // Sentence, bar and cards are the first screen of a desk. A capture can have fewer than three findings.
  const isDesk = innerWidth > 1000 && scrollY === 0;
  for (const part of isDesk ? [".sentence", ".shares", ".card"].flatMap((name) => [...document.querySelectorAll(name)]) : []) {
    expect(part.getBoundingClientRect().bottom <= innerHeight, "the verdict is below the fold");
  }
  expect(document.querySelector(".sentence")?.textContent, "the page has no verdict");
  expect(all("section").every((part) => part.querySelector("h2")), "a section without a heading");
  expect(all("section").every((part) => part.querySelector("details.sql code, textarea")), "a section without its SQL");
  const headings = all("h1, h2, h3, h4, h5").map((heading) => Number(heading.tagName[1]));
  expect(headings.every((level, at) => at === 0 || level <= headings[at - 1] + 1), "headings leave out a level");
  expect(all("table").every((table) => table.caption || table.closest(".code-of")), "a table without a caption");
  const ids = all("[id]").map((part) => part.id);
  expect(new Set(ids).size === ids.length, "an anchor that is there twice");
  for (const link of all("a[href]:not([download])")) {
    const href = link.getAttribute("href");
    expect(href.startsWith("#") && document.getElementById(href.slice(1)), `a link to nowhere: ${href}`);
  }
  expect(all("[style]").every((part) => part.closest(".icicle, .heat")), "a style that the policy forbids");
  const wide = document.documentElement.scrollWidth;
  expect(wide <= innerWidth, `the page is ${wide} wide, the window ${innerWidth}`);
  return wrong;
})()
