# Writes the half year of orders in orders.csv:  awk -f examples/orders.awk >examples/orders.csv
# The same numbers every time, on every awk: a small generator of its own instead of rand().

function random(n) {            # 0 to n - 1
  state = (state * 16807) % 2147483647
  return int(state / 2147483647 * n)
}

BEGIN {
  state = 20260101
  split("North North North South South East East East East West", regions, " ")
  names = "Espresso blend 1 kg|Filter roast 1 kg|Decaf 1 kg|Cold brew 5 l|Paper filters x1000|Burr set 64 mm"
  count = split(names, products, "|")
  split("18.90 21.50 22.40 34.00 12.75 89.00", prices, " ")
  split("40 30 15 24 20 4", most, " ")
  split("31 28 31 30 31 30", days, " ")

  print "date,order,region,product,quantity,unit_price"
  for (month = 1; month <= 6; month++) {
    for (day = 1; day <= days[month]; day++) {
      # Two or three orders a day, more towards the summer; none on Sundays (the year began on a Thursday).
      if ((dayofyear++ + 4) % 7 == 0) continue
      orders = 2 + (random(10) < 3 + month)
      while (orders-- > 0) {
        region = regions[1 + random(10)]
        product = 1 + random(count)
        # Cold brew is for warm months, burr sets are bought one by one.
        if (product == 4 && month < 4 && random(3) > 0) product = 1
        quantity = 1 + random(most[product])
        if (product == 4) quantity += 3 * month
        # The East paid the new price list from April on.
        price = prices[product]
        if (region == "East" && month >= 4) price *= 1.05
        printf "2026-%02d-%02d,%05d,%s,%s,%d,%.2f\n", month, day, ++number + 41200, region, products[product], quantity, price
      }
    }
  }
}
